import io.modelcontextprotocol.json.jackson3.JacksonMcpJsonMapperSupplier;
import io.modelcontextprotocol.server.McpServer;
import io.modelcontextprotocol.server.McpServerFeatures.SyncToolSpecification;
import io.modelcontextprotocol.server.McpSyncServer;
import io.modelcontextprotocol.server.transport.StdioServerTransportProvider;
import io.modelcontextprotocol.spec.McpSchema.CallToolResult;
import io.modelcontextprotocol.spec.McpSchema.ServerCapabilities;
import io.modelcontextprotocol.spec.McpSchema.Tool;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;

/** A server on the Java SDK whose tools are added and removed as groups are switched on and off. It knows nothing of Toolfold. */
public final class Groups {
    private McpSyncServer server;
    private final Map<String, List<SyncToolSpecification>> groups = new LinkedHashMap<>();
    private final Map<String, String> rivals = Map.of("sandbox", "live", "live", "sandbox");
    private final Map<String, String> inside = Map.of("files", "edit");
    private final Set<String> on = new HashSet<>();

    private Groups() {
        groups.put("finance", List.of(
            tool("analyse", "Analyse the market for a symbol.", given -> given.get("symbol") + ": steady", "symbol"),
            tool("convert", "Convert an amount.", given -> given.get("amount") + " at 1", "amount")));
        List<SyncToolSpecification> files = new ArrayList<>(controls("edit"));
        files.add(tool("read_note", "Read a note.", given -> "the note " + given.get("name"), "name"));
        groups.put("files", files);
        groups.put("edit", List.of(
            tool("write_note", "Write a note.", given -> "wrote to " + given.get("name"), "name", "text")));
        groups.put("sandbox", List.of(
            tool("rehearse", "Rehearse an order.", given -> "rehearsed " + given.get("order"), "order")));
        groups.put("live", List.of(
            tool("execute", "Execute an order.", given -> "executed " + given.get("order"), "order")));
    }

    private List<SyncToolSpecification> always() {
        List<SyncToolSpecification> tools = new ArrayList<>();
        tools.add(tool("status", "Say that the server is up.", given -> "up"));
        for (String group : List.of("finance", "files", "sandbox", "live")) {
            tools.addAll(controls(group));
        }
        return tools;
    }

    private List<SyncToolSpecification> controls(String group) {
        return List.of(
            tool("activate_" + group, "Switch on the group " + group + ".", given -> activate(group)),
            tool("deactivate_" + group, "Switch off the group " + group + ".", given -> deactivate(group)));
    }

    private String activate(String group) {
        if (rivals.containsKey(group)) {
            deactivate(rivals.get(group));
        }
        if (on.add(group)) {
            groups.get(group).forEach(server::addTool);
        }
        return group + " is on";
    }

    private String deactivate(String group) {
        if (inside.containsKey(group)) {
            deactivate(inside.get(group));
        }
        if (on.remove(group)) {
            groups.get(group).forEach(each -> server.removeTool(each.tool().name()));
        }
        return group + " is off";
    }

    private static SyncToolSpecification tool(
            String name, String description, Function<Map<String, Object>, String> answer, String... arguments) {
        Map<String, Object> properties = new LinkedHashMap<>();
        for (String argument : arguments) {
            properties.put(argument, Map.of("type", "string"));
        }
        Map<String, Object> schema = Map.of("type", "object", "properties", properties, "required", List.of(arguments));
        return SyncToolSpecification.builder()
            .tool(Tool.builder(name, schema).description(description).build())
            .callHandler((exchange, request) ->
                CallToolResult.builder().addTextContent(answer.apply(request.arguments())).build())
            .build();
    }

    private void serve() {
        server = McpServer.sync(new StdioServerTransportProvider(new JacksonMcpJsonMapperSupplier().get()))
            .serverInfo("java-groups", "1.0.0")
            .capabilities(ServerCapabilities.builder().tools(true).build())
            .tools(always())
            .build();
    }

    public static void main(String[] arguments) {
        new Groups().serve();
    }
}
