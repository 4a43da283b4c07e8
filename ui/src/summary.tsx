// What ran, what came of it, what it cost.
import { methodsOf } from "./curves";
import { mean, type Head, type Run } from "./data";

export function Cards({ head }: { head: Head }) {
  return (
    <section aria-label="Summary">
      {methodsOf(head).map(({ name, runs }) => (
        <div class="method" key={name}>
          {head.runs.length > runs.length && <h2>{name}</h2>}
          <div class="cards">
            <Success title="Success, sampled" runs={runs} of={(run) => run.summary.sampled} />
            <Success title="Success, greedy" runs={runs} of={(run) => run.summary.greedy} />
            <Card title="Learned" value={`${whole(runs, (run) => run.summary.updates)} updates`}
              note={`in ${whole(runs, (run) => run.summary.steps)} iterations`} />
            <Card title="Played" value={`${whole(runs, (run) => run.summary.turns)} turns`}
              note={`${whole(runs, (run) => run.summary.tokens)} tokens generated`} />
            <Card title="Took" value={lasting(mean(runs.map((run) => run.summary.seconds)) ?? 0)}
              note={phases(runs)} />
          </div>
          <Settings runs={runs} />
        </div>
      ))}
    </section>
  );
}

function Card({ title, value, note }: { title: string; value: string; note: string }) {
  return <div class="card"><p class="title">{title}</p><p class="value">{value}</p><p class="faint">{note}</p></div>;
}

function Success({ title, runs, of }: { title: string; runs: Run[]; of: (run: Run) => number[] }) {
  const pairs = runs.map(of).filter((pair) => pair.length);
  if (!pairs.length) return null;
  const before = pairs.map((pair) => pair[0]!), after = pairs.map((pair) => pair[pair.length - 1]!);
  const spread = pairs.length > 1 ? `, seeds ${percent(Math.min(...after))} to ${percent(Math.max(...after))}` : "";
  return <Card title={title} value={`${percent(mean(before)!)} \u2192 ${percent(mean(after)!)}`}
    note={`of ${runs[0]!.summary.episodes.toLocaleString("en")} held-out tasks${spread}`} />;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

function whole(runs: Run[], of: (run: Run) => number): string {
  return Math.round(mean(runs.map(of)) ?? 0).toLocaleString("en");
}

function lasting(seconds: number): string {
  if (seconds < 90) return `${seconds.toFixed(0)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Where the time went, the longest first. */
function phases(runs: Run[]): string {
  const totals = new Map<string, number>();
  for (const run of runs) {
    for (const [name, column] of Object.entries(run.curves)) {
      if (!name.startsWith("seconds/")) continue;
      const sum = column.reduce<number>((total, value) => total + (value ?? 0), 0);
      totals.set(name.slice(8), (totals.get(name.slice(8)) ?? 0) + sum);
    }
  }
  const all = [...totals.values()].reduce((a, b) => a + b, 0);
  if (!all) return "";
  return [...totals].sort((a, b) => b[1] - a[1]).slice(0, 3)
    .map(([name, sum]) => `${name} ${Math.round((100 * sum) / all)} %`).join(", ");
}

function Settings({ runs }: { runs: Run[] }) {
  return (
    <details class="settings">
      <summary>What ran</summary>
      {runs.map(({ summary }) => (
        <div key={summary.folder}>
          <p><code>{summary.command}</code></p>
          <p class="faint">{summary.folder}; seed {summary.seed}; {summary.machine};{" "}
            {Object.entries(summary.packages).map(([name, version]) => `${name} ${version}`).join(", ")}
            {summary.commit && `; commit ${summary.commit.slice(0, 10)}`}</p>
        </div>
      ))}
      <div class="wide short" tabIndex={0} role="group" aria-label="Settings">
        <table class="words"><thead><tr><th scope="col">setting</th><th scope="col">value</th></tr></thead>
          <tbody>{runs[0]!.summary.settings.map(([name, value]) => <tr key={name}><th scope="row">{name}</th><td>{value}</td></tr>)}</tbody>
        </table>
      </div>
    </details>
  );
}

