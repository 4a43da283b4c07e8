// Builds src/ into one script and one style sheet; licences of libraries stay in the script.
import { build } from "esbuild";

const out = process.argv[2] ?? "../src/retrograde/ui";

await build({
  entryPoints: { app: "src/main.tsx" },
  outdir: out,
  bundle: true,
  minify: true,
  target: "es2022",
  format: "iife",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "inline",
  charset: "ascii",
  banner: { js: await notices() },
  logLevel: "warning",
});

/** The licence of every library in the script, as its own package states it. */
async function notices() {
  const { readFile } = await import("node:fs/promises");
  const names = ["d3-hierarchy", "preact", "uplot"];
  const texts = await Promise.all(
    names.map(async (name) => {
      const { version } = JSON.parse(await readFile(`node_modules/${name}/package.json`, "utf8"));
      const text = await readFile(`node_modules/${name}/LICENSE`, "utf8");
      return `${name} ${version}\n\n${text.trim()}`;
    }),
  );
  return `/*!\nThis script contains:\n\n${texts.join("\n\n----\n\n")}\n*/`;
}
