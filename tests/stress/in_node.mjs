// The package in Pyodide, by node and the npm package `pyodide`.
//
//     npm install pyodide
//     node tests/stress/in_node.mjs noise.json
//
// privcontrol.verify is the standard library alone, so it proves the design file with
// nothing else. README's plant and noise need the wheels of NumPy, SciPy, Matplotlib and
// Clarabel, which Pyodide fetches from its own server, and those of python-control and the
// others from PyPI. Where they cannot be had, a line says so and the exit code is still 0.

import { readFileSync, readdirSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const design = process.argv[2];
const installed = createRequire(join(process.cwd(), "here.js"));
const module = join(dirname(installed.resolve("pyodide")), "pyodide.mjs");
const { loadPyodide } = await import(pathToFileURL(module).href);

const pyodide = await loadPyodide();
console.log(`Python ${pyodide.runPython("import sys; sys.version.split()[0]")} in Pyodide ${pyodide.version}`);

function copy(from, to) {
  pyodide.FS.mkdirTree(to);
  for (const name of readdirSync(from)) {
    if (name === "__pycache__") continue;
    const place = join(from, name);
    if (statSync(place).isDirectory()) copy(place, `${to}/${name}`);
    else pyodide.FS.writeFile(`${to}/${name}`, readFileSync(place));
  }
}
copy(join(root, "privcontrol"), "/clone/privcontrol");

if (design) {
  pyodide.FS.writeFile("/noise.json", readFileSync(design));
  const code = pyodide.runPython(`
import runpy, sys
sys.argv = ["verify", "/noise.json"]
try:
    runpy.run_path("/clone/privcontrol/verify.py", run_name="__main__")
    code = 0
except SystemExit as end:
    code = end.code or 0
code
`);
  if (code !== 0) process.exit(1);
}

const compiled = ["numpy", "scipy", "matplotlib", "clarabel"];
try {
  await pyodide.loadPackage([...compiled, "micropip"], { messageCallback: () => {} });
  if (!pyodide.loadedPackages.numpy) throw new Error("NumPy was not loaded");
} catch (error) {
  console.log(`the wheels of ${compiled.join(", ")} are not at hand here, so the first`);
  console.log(`example was not run (${String(error.message).split("\n")[0]})`);
  process.exit(0);
}
await pyodide.runPythonAsync(`
import micropip
await micropip.install(["control", "cvxpy-base", "filelock", "lazy-loader", "mpmath", "python-flint", "threadpoolctl"])
import os, sys
os.environ["MPLBACKEND"] = "Agg"
sys.path.insert(0, "/clone")
`);
const example = readFileSync(join(root, "examples", "first_private_loop.py"), "utf8");
pyodide.FS.writeFile("/first_private_loop.py", example);
pyodide.runPython(`
import runpy, sys
sys.argv = ["first_private_loop", "/"]
runpy.run_path("/first_private_loop.py", run_name="__main__")
`);
console.log("the first example ran");
