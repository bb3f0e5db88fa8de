// The server, as functions. Calls go over one socket, which opens when it is needed.

export class Problem extends Error {
  constructor({ message, span = null, suggestion = "" }) {
    super(message);
    this.span = span;
    this.suggestion = suggestion;
  }
}

const LOST = { message: "The connection to the server was lost. Is it still running?" };
const TRY_LATER = 1013;
const waiting = new Map(); // id → { resolve, reject }
let socket = null;
let lastId = 0;

export async function fetchWorld() {
  const answer = await fetch("api/world");
  if (!answer.ok) throw new Problem(await answer.json());
  return answer.json();
}

/** Ask for one of the API's offers: parse, episode, step, evaluate, teach, psi, frames. */
export async function call(kind, request) {
  const open = await connected();
  const id = ++lastId;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    open.send(JSON.stringify({ id, kind, request }));
  });
}

export async function fetchGif(request) {
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch("api/gif", { method: "POST", headers, body: JSON.stringify(request) });
  if (!answer.ok) throw new Problem(await answer.json());
  return answer.blob();
}

function connected() {
  if (socket === null) {
    const opening = new WebSocket(new URL("api/socket", location.href.replace(/^http/, "ws")));
    socket = new Promise((resolve, reject) => {
      opening.onopen = () => resolve(opening);
      opening.onmessage = (event) => settle(JSON.parse(event.data));
      opening.onclose = ({ code, reason }) => {
        const why = code === TRY_LATER ? { message: reason } : LOST;
        socket = null;
        reject(new Problem(why));
        waiting.forEach((one) => one.reject(new Problem(why)));
        waiting.clear();
      };
    });
  }
  return socket;
}

function settle({ id, reply, problem }) {
  const one = waiting.get(id);
  waiting.delete(id);
  if (problem) one?.reject(new Problem(problem));
  else one?.resolve(reply);
}
