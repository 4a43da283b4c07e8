// Figures over a run: smoothed lines, and a band from the lowest seed to the highest.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { shown, type Column, type Head, type Run } from "./data";

interface Line { name: string; of: (run: Run) => Column | undefined; dash?: number[] }

interface Chart { id: string; title: string; hint: string; lines: Line[]; zero?: boolean }

type Axis = "step" | "env/steps" | "tokens/generated" | "wall_seconds";

const AXES: Record<Axis, string> = {
  step: "iterations",
  "env/steps": "turns generated",
  "tokens/generated": "tokens generated",
  wall_seconds: "seconds",
};

const first = (...names: string[]) => (run: Run) => names.map((name) => run.curves[name]).find((column) => column);

function times(run: Run, one: string, other: string): Column | undefined {
  const a = run.curves[one], b = run.curves[other];
  return a && b?.map((value, i) => (value === null || a[i] == null ? null : value * a[i]!));
}

const CHARTS: Chart[] = [
  { id: "success", title: "Held-out success", hint: "share of tasks; dashed: greedy", zero: true, lines: [
    { name: "sampled", of: first("eval/success") }, { name: "greedy", of: first("eval/success_greedy"), dash: [5, 4] }] },
  { id: "reward", title: "Return", hint: "mean of the first attempts", lines: [{ name: "mean", of: first("reward/mean") }] },
  { id: "entropy", title: "Entropy", hint: "nats a token; by \u2212log \u03c0 where entropy is not told", zero: true, lines: [{ name: "entropy", of: first("entropy", "entropy/mean", "surprise") }] },
  { id: "clip", title: "Clip share", hint: "of trained tokens", zero: true, lines: [{ name: "clipped", of: first("clip_ratio") }] },
  { id: "kl", title: "KL", hint: "to the initial policy, nats a token", zero: true, lines: [{ name: "KL", of: first("kl", "kl/mean", "actor/kl") }] },
  { id: "ratio", title: "Trained to sampled probability", hint: "mean ratio", lines: [{ name: "ratio", of: first("ratio/mean") }] },
  { id: "apart", title: "Log-probability gap", hint: "trained from sampled, before the update, nats", zero: true, lines: [{ name: "distance", of: first("sampling/logp_difference/mean") }] },
  { id: "flat", title: "Zero-advantage share", hint: "of trained rows; dashed: groups without a spread", zero: true, lines: [
    { name: "rows", of: first("rows/zero_advantage") }, { name: "groups", of: first("frac_reward_zero_std"), dash: [5, 4] }] },
  { id: "turns", title: "Turns an episode", hint: "mean of the first attempts", zero: true, lines: [{ name: "turns", of: first("num_turns/mean") }] },
  { id: "tokens", title: "Tokens an episode", hint: "tokens an answer times turns", zero: true, lines: [
    { name: "tokens", of: (run) => times(run, "num_turns/mean", "completions/mean_length") }] },
  { id: "gradient", title: "Gradient norm", hint: "before it is bounded", zero: true, lines: [{ name: "norm", of: first("grad_norm") }] },
];

const COLOURS = ["var(--line-1)", "var(--line-2)", "var(--line-3)", "var(--line-4)", "var(--line-5)", "var(--line-6)"];
const PHASES = "seconds/";
const FEW = 20;

export function Curves({ head }: { head: Head }) {
  const longest = Math.max(...head.runs.map((run) => run.curves.step?.length ?? 0));
  const [smooth, setSmooth] = useState(longest > FEW ? 0.6 : 0);
  const [axis, setAxis] = useState<Axis>("step");
  const [added, setAdded] = useState<string[]>([]);
  const names = useMemo(() => {
    const all = new Set(head.runs.flatMap((run) => Object.keys(run.curves)));
    return [...all].filter((name) => !(name in AXES)).sort();
  }, [head]);
  const methods = methodsOf(head);
  const seconds: Chart = {
    id: "seconds", title: "Seconds an iteration", hint: methods.length > 1 ? "all phases together" : "by phase", zero: true,
    lines: methods.length > 1
      ? [{ name: "all", of: (run) => total(run) }]
      : names.filter((name) => name.startsWith(PHASES)).map((name) => ({ name: name.slice(PHASES.length), of: first(name) })),
  };
  const charts = [...CHARTS, seconds, ...added.map((name): Chart => ({ id: `added ${name}`, title: name, hint: "", lines: [{ name, of: first(name) }] }))];
  return (
    <section aria-labelledby="curves">
      <h2 id="curves">Curves</h2>
      <div class="bar">
        <label>smoothing <input type="range" min="0" max="0.95" step="0.05" value={smooth}
          onInput={(event) => setSmooth(Number(event.currentTarget.value))} /> <output>{smooth.toFixed(2)}</output></label>
        <label>across <select value={axis} onChange={(event) => setAxis(event.currentTarget.value as Axis)}>
          {Object.entries(AXES).map(([name, text]) => <option key={name} value={name}>{text}</option>)}
        </select></label>
        <label>another figure <select value="" onChange={(event) => {
          const name = event.currentTarget.value;
          if (name && !added.includes(name)) setAdded([...added, name]);
        }}>
          <option value="">choose</option>
          {names.map((name) => <option key={name} value={name}>{name}</option>)}
        </select></label>
      </div>
      {methods.length > 1 && (
        <ul class="bar methods">
          {methods.map((method, i) => <li key={method.name}><i style={{ background: COLOURS[i % COLOURS.length] }} />{method.name}{method.runs.length > 1 ? ` (${method.runs.length} seeds)` : ""}</li>)}
        </ul>
      )}
      <div class="charts">
        {charts.filter((chart) => chart.lines.some((line) => head.runs.some((run) => line.of(run)?.some((value) => value !== null))))
          .map((chart) => <Plot key={chart.id} chart={chart} methods={methods} smooth={smooth} axis={axis} />)}
      </div>
    </section>
  );
}

interface Method { name: string; runs: Run[] }

export function methodsOf(head: Head): Method[] {
  const found = new Map<string, Run[]>();
  for (const run of head.runs) found.set(run.summary.method, [...(found.get(run.summary.method) ?? []), run]);
  const rest = sharedRest(head);
  return [...found].map(([name, runs]) => ({ name: name.slice(0, name.length - rest.length), runs }));
}

/** What the names of all methods end with, if there are several: " on hop, embedded". */
export function sharedRest(head: Head): string {
  const names = [...new Set(head.runs.map(({ summary }) => summary.method))];
  const rests = new Set(names.map((name) => name.slice(name.indexOf(" on "))));
  return names.length > 1 && rests.size === 1 ? [...rests][0]! : "";
}

function total(run: Run): Column {
  const columns = Object.entries(run.curves).filter(([name]) => name.startsWith(PHASES)).map(([, column]) => column);
  return (run.curves.step ?? []).map((_, i) => columns.reduce((sum, column) => sum + (column[i] ?? 0), 0));
}

interface Points { x: number[]; y: number[] }

function pointsOf(run: Run, line: Line, axis: Axis): Points {
  const y = line.of(run) ?? [], x = run.curves[axis] ?? [];
  const kept = y.flatMap((value, i) => (value === null || x[i] == null ? [] : [i]));
  return { x: kept.map((i) => x[i]!), y: kept.map((i) => y[i]!) };
}

/** An exponential mean, started without a bias towards its first value. */
export function smoothed(values: number[], weight: number): number[] {
  let sum = 0, mass = 0;
  return values.map((value) => {
    sum = weight * sum + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    return sum / mass;
  });
}

function at({ x, y }: Points, where: number): number | null {
  if (!x.length || where < x[0]! || where > x[x.length - 1]!) return null;
  const i = x.findIndex((value) => value >= where);
  if (x[i] === where || i === 0) return y[i]!;
  const share = (where - x[i - 1]!) / (x[i]! - x[i - 1]!);
  return y[i - 1]! + share * (y[i]! - y[i - 1]!);
}

interface Drawn { name: string; colour: string; values: (number | null)[]; width: number; dash?: number[]; faint?: boolean; low?: (number | null)[]; high?: (number | null)[] }

function drawnOf(chart: Chart, methods: Method[], smooth: number, axis: Axis): { x: number[]; drawn: Drawn[] } {
  const all = methods.flatMap(({ runs }) => runs.flatMap((run) => chart.lines.map((line) => pointsOf(run, line, axis))));
  const x = [...new Set(all.flatMap((points) => points.x))].sort((a, b) => a - b);
  const drawn: Drawn[] = [];
  methods.forEach((method, m) => chart.lines.forEach((line, l) => {
    const colour = COLOURS[(methods.length > 1 || line.dash ? m : m + l) % COLOURS.length]!;
    const raw = method.runs.map((run) => pointsOf(run, line, axis)).filter((points) => points.x.length);
    if (!raw.length) return;
    const smooths = raw.map((points) => ({ x: points.x, y: smoothed(points.y, smooth) }));
    const columns = x.map((where) => smooths.map((points) => at(points, where)).filter((value) => value !== null));
    const full = columns.map((values) => (values.length === smooths.length ? values : []));
    const several = smooths.length > 1;
    if (!several && smooth > 0) {
      drawn.push({ name: `${line.name}, as it was`, colour, values: x.map((where) => at(raw[0]!, where)), width: 1, faint: true });
    }
    drawn.push({
      name: methods.length === 1 ? line.name : chart.lines.length === 1 ? method.name : `${method.name}, ${line.name}`, colour, width: 1.75, dash: line.dash,
      values: full.map((values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : null)),
      ...(several ? { low: full.map((v) => (v.length ? Math.min(...v) : null)), high: full.map((v) => (v.length ? Math.max(...v) : null)) } : {}),
    });
  }));
  return { x, drawn };
}

function Plot({ chart, methods, smooth, axis }: { chart: Chart; methods: Method[]; smooth: number; axis: Axis }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const { x, drawn } = useMemo(() => drawnOf(chart, methods, smooth, axis), [chart.id, methods, smooth, axis]);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    let seen: IntersectionObserver | null = null;
    const draw = () => {
      plot.current?.destroy();
      plot.current = plotted(element, chart, x, drawn, axis);
    };
    const resized = new ResizeObserver(() => plot.current?.setSize(sizeOf(element)));
    // Charts out of sight wait until they are scrolled to.
    seen = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting) && !plot.current) draw();
    }, { rootMargin: "300px" });
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => plot.current && draw();
    seen.observe(element);
    resized.observe(element);
    dark.addEventListener("change", redraw);
    return () => {
      seen.disconnect();
      resized.disconnect();
      dark.removeEventListener("change", redraw);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [x, drawn, chart.id]);
  const solid = drawn.filter((line) => !line.faint);
  const lines = solid.map((line) => {
    const values = line.values.filter((value) => value !== null);
    return { ...line, text: values.length ? `${shown(values[0])} \u2192 ${shown(values[values.length - 1])}` : "" };
  });
  return (
    <figure class="chart">
      <figcaption>
        <strong>{chart.title}</strong> <span class="faint">{chart.hint}</span>
        <ul>
          {lines.map((line) => (
            <li key={line.name}><i class={line.dash ? "dashed" : ""} style={{ color: line.colour }} />
              {solid.length > 1 && <span>{line.name} </span>}{line.text}</li>
          ))}
        </ul>
      </figcaption>
      <div class="plot" ref={box} role="img" aria-label={`${chart.title}: ${lines.map((line) => `${line.name} ${line.text}`).join("; ")}`} />
    </figure>
  );
}

function sizeOf(element: HTMLElement): { width: number; height: number } {
  return { width: Math.max(160, element.clientWidth), height: 150 };
}

function plotted(element: HTMLElement, chart: Chart, x: number[], drawn: Drawn[], axis: Axis): uPlot {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name.replace(/^var\(|\)$/g, "")).trim();
  const series: uPlot.Series[] = [{ label: AXES[axis] }];
  const data: (number[] | (number | null)[])[] = [x];
  const bands: uPlot.Band[] = [];
  for (const line of drawn) {
    const stroke = colour(line.colour);
    if (line.low && line.high) {
      series.push({ stroke: "transparent", points: { show: false } }, { stroke: "transparent", points: { show: false } });
      data.push(line.high, line.low);
      bands.push({ series: [data.length - 2, data.length - 1], fill: `${stroke}2e` });
    }
    series.push({
      label: line.name, stroke: line.faint ? `${stroke}55` : stroke, width: line.width, dash: line.dash, spanGaps: true,
      points: { show: x.length <= 12 && !line.faint, size: 5, fill: stroke },
    });
    data.push(line.values);
  }
  const ink = colour("--faint"), rule = colour("--rule");
  const side: uPlot.Axis = { stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  const options: uPlot.Options = {
    ...sizeOf(element), series, bands, legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    scales: { x: { time: false }, y: { range: (_, low, high) => ranged(low, high, chart.zero ?? false) } },
    axes: [
      { ...side, grid: { show: false }, size: 24, values: (_, ticks, _axis, _space, apart) => ticks.map((tick) => brief(tick, apart)) },
      { ...side, size: (_, texts) => 16 + 6.5 * Math.max(4, ...(texts ?? []).map((text) => text.length)),
        values: (_, ticks, _axis, _space, apart) => ticks.map((tick) => brief(tick, apart)) },
    ],
  };
  return new uPlot(options, data as uPlot.AlignedData, element);
}

function ranged(low: number | null, high: number | null, zero: boolean): [number, number] {
  const from = zero ? Math.min(0, low ?? 0) : low ?? 0;
  const to = high ?? 1;
  if (to - from < 1e-12) return zero ? [0, to > 0 ? to * 1.1 : 1] : [from - 0.5, to + 0.5];
  const room = 0.06 * (to - from);
  return [zero && from === 0 ? 0 : from - room, to + room];
}

/** A tick, with as many digits as tell it from the next. */
function brief(value: number, apart: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(4)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(4)}k`;
  if (size < 1e-3) return value.toExponential(0);
  let digits = 0;
  while (digits < 7 && Math.abs(apart * 10 ** digits - Math.round(apart * 10 ** digits)) > 1e-6) digits++;
  return value.toFixed(digits);
}
