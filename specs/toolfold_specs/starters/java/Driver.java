// A driver for the conformance kit of Toolfold: toolfold conform --driver -- java Driver.java (JDK 17 or later)
// Engine stands for your implementation; replace it, and Json by your JSON library, and keep the rest.

import java.io.*;
import java.util.*;
import java.util.stream.*;

@SuppressWarnings({"serial", "unchecked"})
public class Driver {
    /** An error of SPEC 23, with what it names. */
    static class Refusal extends RuntimeException {
        final Map<String, Object> detail;

        Refusal(String name, String member, String group) {
            super(name);
            detail = Map.of(member, group);
        }
    }

    /** The rules of groups, for one session. */
    static class Engine {
        final Set<String> paths;
        final List<List<String>> exclusions;
        /** In canonical order: name by name, so that a.b comes before a-b. */
        final SortedSet<String> active =
                new TreeSet<>((one, other) -> Arrays.compare(one.split("\\."), other.split("\\.")));

        Engine(Collection<String> paths, List<List<String>> exclusions) {
            this.paths = Set.copyOf(paths);
            this.exclusions = exclusions;
        }

        /** Activates a group and returns whether that changed anything. */
        boolean activate(String group) {
            require(group);
            for (int dot = group.indexOf('.'); dot >= 0; dot = group.indexOf('.', dot + 1)) { // from the top down
                String ancestor = group.substring(0, dot);
                if (!active.contains(ancestor)) throw new Refusal("ParentInactive", "missing", ancestor);
            }
            if (active.contains(group)) return false;
            exclusions.stream().filter(members -> members.contains(group)).flatMap(List::stream).forEach(this::close);
            return active.add(group);
        }

        /** Deactivates a group and all below it, and returns whether that changed anything. */
        boolean deactivate(String group) {
            require(group);
            boolean changed = active.contains(group);
            close(group);
            return changed;
        }

        private void require(String group) {
            if (!paths.contains(group)) throw new Refusal("GroupNotFound", "group", group);
        }

        private void close(String group) {
            active.removeIf(path -> path.equals(group) || path.startsWith(group + "."));
        }
    }

    static Engine engine = new Engine(List.of(), List.of());

    static Map<String, Object> respond(Map<String, Object> request) {
        Map<String, Object> arguments = (Map<String, Object>) request.getOrDefault("arguments", Map.of());
        String group = (String) arguments.get("group");
        try {
            switch ((String) request.get("verb")) {
                case "hello": return Map.of("protocol", 1, "capabilities", List.of("setups", "errors"));
                case "configure":
                    Map<String, Object> setup = (Map<String, Object>) arguments.get("setup");
                    List<Map<String, String>> groups = (List<Map<String, String>>) setup.get("groups");
                    List<String> paths = groups.stream().map(one -> one.get("path")).toList();
                    engine = new Engine(paths, (List<List<String>>) setup.get("exclusions"));
                    return Map.of();
                case "activate": return Map.of("changed", engine.activate(group), "active", engine.active);
                case "deactivate": return Map.of("changed", engine.deactivate(group), "active", engine.active);
                case "snapshot": return Map.of("active", engine.active);
                default: return Map.of("error", "NotSupported");
            }
        } catch (Refusal refused) {
            return Map.of("error", refused.getMessage(), "detail", refused.detail, "active", engine.active);
        }
    }

    public static void main(String[] words) throws IOException {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = requests.readLine(); line != null; line = requests.readLine())
            System.out.println(Json.write(respond((Map<String, Object>) new Json(line).read())));
    }

    /** Just enough of JSON. */
    static class Json {
        private final StreamTokenizer tokens;

        Json(String text) {
            tokens = new StreamTokenizer(new StringReader(text));
            tokens.ordinaryChar('/');
            tokens.ordinaryChar('\'');
        }

        Object read() throws IOException {
            switch (tokens.nextToken()) {
                case '"': return tokens.sval;
                case StreamTokenizer.TT_NUMBER: return tokens.nval;
                case StreamTokenizer.TT_WORD: return tokens.sval.equals("null") ? null : tokens.sval.equals("true");
                case '[':
                    List<Object> list = new ArrayList<>();
                    while (!next(']')) list.add(read());
                    return list;
                default:
                    Map<String, Object> object = new HashMap<>();
                    while (!next('}')) {
                        String name = (String) read();
                        next(':');
                        object.put(name, read());
                    }
                    return object;
            }
        }

        /** Skips a comma or colon; returns whether the end of a list or object has come. */
        private boolean next(char end) throws IOException {
            int token = tokens.nextToken();
            if (token != end && token != ',' && token != ':') tokens.pushBack();
            return token == end;
        }

        static String write(Object value) {
            if (value instanceof Map<?, ?> map)
                return map.entrySet().stream().map(one -> write(one.getKey()) + ":" + write(one.getValue()))
                        .collect(Collectors.joining(",", "{", "}"));
            if (value instanceof Collection<?> list)
                return list.stream().map(Json::write).collect(Collectors.joining(",", "[", "]"));
            return value instanceof String text ? '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"' : "" + value;
        }
    }
}
