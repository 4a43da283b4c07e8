// The page.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { Curves, sharedRest } from "./curves";
import { embeddedHead, type Head } from "./data";
import { Flips } from "./flips";
import { Rollouts, type Choice } from "./rollouts";
import { Cards } from "./summary";

const EVERY_MS = 2000;

function App({ given }: { given: Head }) {
  const [head, setHead] = useState(given);
  const [trouble, setTrouble] = useState("");
  const [choice, setChoice] = useState<Choice>(chosen);
  useEffect(() => (given.live ? followed(setHead, setTrouble) : undefined), []);
  function choose(next: Choice) {
    setChoice(next);
    history.replaceState(null, "", `#${next.key}${next.turn ? `/${next.turn}` : ""}`);
  }
  const titles = [...new Set(head.runs.map(({ summary }) => summary.method))];
  useEffect(() => { document.title = `${titles.join("; ")} \u2013 Retrograde`; }, [titles.join()]);
  return (
    <main>
      <header class="top">
        <h1>{titles.length === 1 ? titles[0] : `${head.runs.length} runs${sharedRest(head)}`}</h1>
        <nav aria-label="Parts of the page">
          <a href="#curves" onClick={(event) => shown(event, "curves")}>Curves</a>
          <a href="#tasks" onClick={(event) => shown(event, "tasks")}>Tasks</a>
          <a href="#rollouts" onClick={(event) => shown(event, "rollouts")}>Rollouts</a>
        </nav>
        <p class="faint" role="status">
          {head.live ? (trouble || `live; read ${head.written}`) : `written ${head.written}`}; Retrograde {head.version}
        </p>
      </header>
      <Cards head={head} />
      <Curves head={head} />
      <Flips head={head} onChoose={(key) => { choose({ key, turn: "" }); document.getElementById("rollouts")?.scrollIntoView(); }} />
      <Rollouts head={head} choice={choice} onChoose={choose} />
    </main>
  );
}

function shown(event: Event, id: string) {
  event.preventDefault(); // the address names what is chosen
  document.getElementById(id)?.scrollIntoView();
}

function chosen(): Choice {
  const [key = "", turn = ""] = decodeURIComponent(location.hash.slice(1)).split("/");
  return { key, turn };
}

/** Ask for what changed, as long as the page is looked at. */
function followed(setHead: (head: Head) => void, setTrouble: (text: string) => void): () => void {
  let stamp = "", over = false;
  const ask = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch("head.json", stamp ? { headers: { "If-None-Match": stamp } } : {});
        if (answer.ok) {
          stamp = answer.headers.get("ETag") ?? "";
          const head = (await answer.json()) as Head;
          if (!over) setHead(head);
        }
        setTrouble("");
      } catch {
        setTrouble("the server does not answer");
      }
    }
    if (!over) timer = setTimeout(ask, EVERY_MS);
  };
  let timer = setTimeout(ask, EVERY_MS);
  return () => { over = true; clearTimeout(timer); };
}

render(<App given={embeddedHead()} />, document.getElementById("app")!);
