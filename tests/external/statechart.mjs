// Runs exported statecharts in XState. Arguments: the module that the export comes with, and a file of
// [[configuration, [event, …]], …]. Prints for each the value of the state after each event.
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { initialTransition, transition } from "xstate";

const [module, file] = process.argv.slice(2);
const { toMachine } = await import(pathToFileURL(module));

const values = ([configuration, events]) => {
  const machine = toMachine(configuration);
  let [state] = initialTransition(machine);
  return events.map((type) => {
    [state] = transition(machine, state, { type });
    return state.value;
  });
};

process.stdout.write(JSON.stringify(JSON.parse(await readFile(file, "utf8")).map(values)));
