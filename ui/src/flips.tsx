// Held-out tasks that were learned, or forgotten.
import { useMemo, useState } from "preact/hooks";
import { sharedRest } from "./curves";
import { type Entry, type Flip, type Head } from "./data";

const MOST = 12;

export function Flips({ head, onChoose }: { head: Head; onChoose: (key: string) => void }) {
  const [way, setWay] = useState("");
  const [greedy, setGreedy] = useState("greedy");
  const [most, setMost] = useState(MOST);
  const stored = useMemo(() => new Map(head.groups.map((entry) => [nameOf(entry), entry.key])), [head]);
  const all = head.runs.flatMap((run, number) => run.flips.map((flip) => ({ ...flip, run: number })));
  const mine = all.filter((flip) => flip.greedy === (greedy === "greedy"));
  // Those whose rollouts can be looked at come first.
  const seen = (flip: Flip & { run: number }) => Number(keyOf(stored, flip, "last") !== undefined);
  const found = mine.filter((flip) => !way || (way === "learned") === flip.learned)
    .sort((a, b) => Number(a.learned) - Number(b.learned) || seen(b) - seen(a));
  const learned = mine.filter((flip) => flip.learned).length;
  return (
    <section aria-labelledby="tasks">
      <h2 id="tasks">Held-out tasks that changed</h2>
      <div class="bar">
        <label>played <select value={greedy} onChange={(event) => setGreedy(event.currentTarget.value)}>
          <option value="greedy">greedily</option>
          <option value="sampled">sampled</option>
        </select></label>
        <label>which <select value={way} onChange={(event) => setWay(event.currentTarget.value)}>
          <option value="">now failing, then now passing</option>
          <option value="learned">now passing</option>
          <option value="lost">now failing</option>
        </select></label>
        <span>{learned} now pass that failed before; {mine.length - learned} now fail that passed before.</span>
      </div>
      {found.length > 0 && (
        <div class="wide">
          <table class="flips">
            <thead><tr>
              <th scope="col">task</th>
              {head.runs.length > 1 && <th scope="col">run</th>}
              <th scope="col">at each evaluation</th><th scope="col">rollouts</th>
            </tr></thead>
            <tbody>
              {found.slice(0, most).map((flip) => {
                const before = keyOf(stored, flip, "first"), after = keyOf(stored, flip, "last");
                return (
                  <tr key={`${flip.run} ${flip.task}`}>
                    <th scope="row">{flip.task}</th>
                    {head.runs.length > 1 && <td>{nameOfRun(head, flip.run)}, seed {head.runs[flip.run]!.summary.seed}</td>}
                    <td class="marks">{flip.history.map((won, i) => (
                      <span key={i} class={won === null ? "faint" : won ? "won" : "lost"} title={`step ${flip.steps[i]}`}>
                        {won === null ? "\u2013" : won ? "\u2713" : "\u2717"}
                        <span class="hidden">{won === null ? "unknown" : won ? "passed" : "failed"} at step {flip.steps[i]}, </span>
                      </span>
                    ))}</td>
                    <td>
                      {before && <button type="button" class="text" onClick={() => onChoose(before)}>before</button>}{" "}
                      {after && <button type="button" class="text" onClick={() => onChoose(after)}>after</button>}
                      {!before && !after && <span class="faint">not kept</span>}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      {found.length > most && <button type="button" onClick={() => setMost(most + 4 * MOST)}>Show more of {found.length}</button>}
    </section>
  );
}

function nameOfRun(head: Head, run: number): string {
  const { method } = head.runs[run]!.summary;
  return method.slice(0, method.length - sharedRest(head).length);
}

function nameOf(entry: Entry): string {
  return JSON.stringify([entry.run, entry.played, entry.step, entry.task]);
}

function keyOf(stored: Map<string, string>, flip: Flip & { run: number }, which: "first" | "last"): string | undefined {
  const step = which === "first" ? flip.steps[0] : flip.steps[flip.steps.length - 1];
  return stored.get(JSON.stringify([flip.run, flip.greedy ? "greedy" : "sampled", step, flip.task]));
}
