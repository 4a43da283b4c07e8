// One turn: what it was worth, what its siblings said, and its tokens one by one.
import { useState } from "preact/hooks";
import { outcomeInWords } from "./tree";
import {
  advantageOf, carriesGradient, contextOf, mean, pathTo, shown, signed, textOf,
  type Group, type Turn, type Visit,
} from "./data";

export type Tint = "none" | "logprob" | "ratio" | "entropy" | "advantage";

const TINTS: Record<Tint, string> = {
  none: "nothing",
  logprob: "log-probability when sampled",
  ratio: "change of log-probability by the update",
  entropy: "entropy",
  advantage: "advantage",
};

const WHOLE = 1200;
const SAID = 90;

export function TurnView(props: {
  group: Group; turn: Turn; phase: number | null; onSelect: (id: string) => void;
  tint: Tint; onTint: (tint: Tint) => void;
}) {
  const { group, turn, phase, onSelect, tint, onTint } = props;
  const tree = group.trees[turn.tree]!;
  const visits = turn.visits.filter((visit) => phase === null || visit.phase === phase);
  const path = pathTo(tree, turn);
  const worst = worstOn(pathThrough(tree, turn));
  const siblings = turn.parent < 0
    ? group.trees.flat().filter((other) => other.parent < 0)
    : tree[turn.parent]!.children.map((i) => tree[i]!);
  return (
    <article class="turn" aria-label="Selected turn">
      <header>
        <h3>Turn {turn.depth + 1}{turn.trunk && tree.length > path.length ? ", first attempt" : ""}</h3>
        <nav class="path" aria-label="Turns on the way">
          {pathThrough(tree, turn).map((step) => (
            <button key={step.id} type="button" class={step.id === turn.id ? "here" : ""}
              aria-current={step.id === turn.id ? "true" : undefined}
              onClick={() => onSelect(step.id)} title={`turn ${step.depth + 1}, advantage ${signed(advantageOf(step, null))}`}>
              {step.depth + 1}
            </button>
          ))}
          {worst && worst.id !== turn.id && (
            <button type="button" class="text" onClick={() => onSelect(worst.id)}>
              lowest advantage: turn {worst.depth + 1}
            </button>
          )}
        </nav>
      </header>
      <Facts turn={turn} phase={phase} visits={visits} />
      {siblings.length > 1 && <Siblings group={group} turn={turn} siblings={siblings} phase={phase} onSelect={onSelect} />}
      <Tokens key={`${group.key} ${turn.id} tokens`} group={group} turn={turn} visits={visits} tint={tint} onTint={onTint} />
      <Context key={`${group.key} ${turn.id}`} group={group} turn={turn} />
    </article>
  );
}

/** From the first turn through this one on to the leaf that its eldest answers lead to. */
function pathThrough(tree: Turn[], turn: Turn): Turn[] {
  const path = pathTo(tree, turn);
  for (let at = turn; at.children.length; ) {
    at = tree[at.children[0]!]!;
    path.push(at);
  }
  return path;
}

function worstOn(path: Turn[]): Turn | null {
  let worst: Turn | null = null;
  for (const turn of path) {
    const value = advantageOf(turn, null);
    if (value !== null && value < 0 && value < (worst ? advantageOf(worst, null)! : 0)) worst = turn;
  }
  return worst;
}

function Facts({ turn, phase, visits }: { turn: Turn; phase: number | null; visits: Visit[] }) {
  const values = mean(visits.flatMap((visit) => visit.values.slice(0, 1)));
  const sum = turn.logprobs.reduce((total, value) => total + value, 0);
  const facts: [string, string][] = [
    ["advantage", signed(advantageOf(turn, phase))],
    ["return behind it", shown(turn.below)],
    ["reward", shown(turn.reward)],
    ...(turn.score === null ? [] : [["score", shown(turn.score)] as [string, string]]),
    ...(values === null ? [] : [["critic's value", shown(values)] as [string, string]]),
    ["log-probability", `${shown(sum)} nats`],
    ["entropy", `${shown(mean(turn.entropies))} nats`],
    ["tokens", `${turn.action.length}`],
    ["policy version", `${turn.version}`],
    ["grown in round", `${turn.grownIn}`],
  ];
  return (
    <>
      <p class={`verdict ${turn.success === null ? "" : turn.success ? "won" : "lost"}`}>
        {turn.children.length ? "" : `This rollout ${outcomeInWords(turn)}. `}
        {gradientInWords(turn, phase, visits)}
      </p>
      <dl class="facts">
        {facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
      </dl>
    </>
  );
}

function gradientInWords(turn: Turn, phase: number | null, visits: Visit[]): string {
  if (!visits.length) {
    return phase === null ? "No update judged it." : "It was not judged in this phase.";
  }
  const times = visits.length > 1 ? ` (mean of ${visits.length} visits)` : "";
  if (carriesGradient(turn, phase)) {
    const updates = [...new Set(visits.filter((v) => v.gradient).map((v) => v.update))];
    return `It carried gradient in the update to version ${updates.join(", ")}${times}.`;
  }
  if (visits.every((visit) => visit.update === null)) return "It was judged, and the update was skipped.";
  return "It was judged and carried no gradient: its advantage is 0.";
}

function Siblings(props: {
  group: Group; turn: Turn; siblings: Turn[]; phase: number | null; onSelect: (id: string) => void;
}) {
  const { group, turn, siblings, phase, onSelect } = props;
  return (
    <details open={siblings.length <= 24}>
      <summary>{siblings.length} answers to the same {turn.parent < 0 ? "task" : "situation"}</summary>
      <div class="wide short" tabIndex={0} role="group" aria-label="Answers to the same situation">
        <table class="siblings">
          <thead><tr><th scope="col">answer</th><th scope="col">advantage</th><th scope="col">return</th></tr></thead>
          <tbody>
            {siblings.map((other) => (
              <tr key={other.id} class={other.id === turn.id ? "here" : ""}>
                <th scope="row">
                  <button type="button" class="text said" onClick={() => onSelect(other.id)}>
                    {cut(textOf(group, other.action.filter((id) => !group.special.has(id)))) || "(nothing)"}
                  </button>
                </th>
                <td>{signed(advantageOf(other, phase))}</td>
                <td>{shown(other.below)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function cut(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > SAID ? `${line.slice(0, SAID)}\u2026` : line;
}

function Tokens({ group, turn, visits, tint, onTint }: {
  group: Group; turn: Turn; visits: Visit[]; tint: Tint; onTint: (tint: Tint) => void;
}) {
  const visit = visits.find((each) => each.after.length) ?? visits[0];
  const possible = (Object.keys(TINTS) as Tint[]).filter((each) =>
    (each !== "ratio" || visits.some((v) => v.after.length)) &&
    (each !== "entropy" || turn.entropies.length) && (each !== "advantage" || visits.length));
  const used = possible.includes(tint) ? tint : "logprob";
  const marked = visits.some((each) => each.gradient);
  const old = visit?.before.length ? visit.before : turn.logprobs;
  const [picked, setPicked] = useState<number | null>(null);
  const titleOf = (i: number) => {
    const logp = turn.logprobs[i]!, after = visit?.after[i], entropy = turn.entropies[i];
    return [
      `id ${turn.action[i]}`,
      `log-probability ${shown(logp)} (${(100 * Math.exp(logp)).toFixed(1)} %)`,
      ...(after === undefined ? [] : [`after the update ${shown(after)}, ratio ${Math.exp(after - (old[i] ?? logp)).toFixed(3)}`]),
      ...(entropy === undefined ? [] : [`entropy ${shown(entropy)}`]),
      ...(visit ? [`advantage ${signed(visit.each?.[i] ?? visit.advantage)}`] : []),
    ];
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const way = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!way) return;
    event.preventDefault();
    setPicked((now) => Math.min(turn.action.length - 1, Math.max(0, (now ?? (way > 0 ? -1 : turn.action.length)) + way)));
  };
  return (
    <section>
      <h4>Answer</h4>
      <div class="bar">
        <label>tint by{" "}
          <select value={used} onChange={(event) => onTint(event.currentTarget.value as Tint)}>
            {possible.map((each) => <option key={each} value={each}>{TINTS[each]}</option>)}
          </select>
        </label>
        <span class="faint">{LEGENDS[used]}{marked ? " Underlined: carried gradient." : ""}</span>
      </div>
      <p class="tokens" tabIndex={0} role="group" aria-label="Tokens of the answer; left and right arrows pick one" onKeyDown={onKeyDown}>
        {turn.action.map((id, i) => {
          const logp = turn.logprobs[i]!;
          const after = visit?.after[i];
          const ratio = after === undefined ? undefined : after - (old[i] ?? logp);
          const worth = visit ? visit.each?.[i] ?? visit.advantage : null;
          const value = { none: null, logprob: logp, ratio: ratio ?? null, entropy: turn.entropies[i] ?? null, advantage: worth }[used];
          const carried = marked && visits.some((each) => each.gradient && (each.each ? each.each[i] !== 0 : true));
          return <Token key={i} group={group} id={id} title={titleOf(i).join("\n")} background={tinted(value, used)}
            carried={carried} picked={picked === i} onPick={() => setPicked(picked === i ? null : i)} />;
        })}
      </p>
      <p class="faint small" role="status">{picked === null ? "Pick a token for its numbers."
        : `${visible(group.pieces[turn.action[picked]!] ?? "").trim()}: ${titleOf(picked).join("; ")}`}</p>
    </section>
  );
}

const LEGENDS: Record<Tint, string> = {
  none: "",
  logprob: "The stronger, the less likely.",
  ratio: "Blue: likelier after the update; orange: less likely.",
  entropy: "The stronger, the less certain.",
  advantage: "Blue: above 0; orange: below.",
};

const REACH: Record<Tint, number> = { none: 1, logprob: 4, ratio: 0.2, entropy: 2, advantage: 1 };

function tinted(value: number | null, tint: Tint): string | undefined {
  if (value === null || tint === "none") return undefined;
  const share = Math.min(1, Math.abs(value) / REACH[tint]);
  const colour = tint === "entropy" ? "var(--much)" : tint === "logprob" || value < 0 ? "var(--bad)" : "var(--good)";
  return `color-mix(in srgb, ${colour} ${Math.round(45 * Math.sqrt(share))}%, transparent)`;
}

function Token({ group, id, title, background, carried, picked, onPick }: {
  group: Group; id: number; title: string; background?: string; carried?: boolean; picked?: boolean; onPick?: () => void;
}) {
  const piece = group.pieces[id] ?? `[${id}]`;
  const special = group.special.has(id);
  return (
    <>
      <span class={`token${special ? " special" : ""}${carried ? " carried" : ""}${picked ? " picked" : ""}`} title={title} onClick={onPick}
        style={background ? { background } : undefined}>{visible(piece)}</span>
      {group.space}
    </>
  );
}

/** White space that would not be seen is shown. */
function visible(piece: string): string {
  if (piece === "") return "\u2205";
  return piece.replace(/\n/g, "\u23ce\n").replace(/\t/g, "\u21e5\t");
}

function Context({ group, turn }: { group: Group; turn: Turn }) {
  const ids = contextOf(group.trees[turn.tree]!, turn);
  const [whole, setWhole] = useState(ids.length <= WHOLE);
  const from = whole ? 0 : Math.max(turn.shared, ids.length - WHOLE);
  return (
    <section>
      <h4>Context <span class="faint">{ids.length.toLocaleString("en")} tokens, exactly as the policy was given them</span></h4>
      {turn.shared > 0 && <p class="faint small">Faint: the first {turn.shared.toLocaleString("en")} tokens, which the turn before was given or said already.</p>}
      {!whole && <button type="button" onClick={() => setWhole(true)}>Show all {ids.length.toLocaleString("en")} tokens</button>}
      <p class="tokens context" tabIndex={0} role="group" aria-label="Tokens of the context">
        {!whole && "\u2026 "}
        {from < turn.shared && <span class="before">{ids.slice(from, turn.shared).map((id, i) => <Token key={i} group={group} id={id} title={`id ${id}`} />)}</span>}
        {ids.slice(Math.max(from, turn.shared)).map((id, i) => <Token key={i} group={group} id={id} title={`id ${id}`} />)}
      </p>
    </section>
  );
}
