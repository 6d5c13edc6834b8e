// The client of bussrv for web pages and for Node 22 and later: one module, without dependencies. A server with
// --websocket serves it as /client.js. docs/how-to/other-languages.md says how to use it.
const JOIN = { event: "routing/subscribe", receive_mode: "no_echo", types: "none", services: [] };
const TEXT = "text/plain; charset=UTF-8", BYTES = "application/octet-stream", NOTHING = new Uint8Array();
const MOST_BUFFERED = 1 << 20; // so many bytes may wait to be sent before a publisher waits for the server
const utf8 = new TextEncoder(), text = new TextDecoder("utf-8", { fatal: true });
/** The server or a provider refused; `reason` is a code, such as `not-allowed`. */
export class BusError extends Error {
  constructor(reason, message = reason, more = {}) {
    super(typeof message === "string" ? message : "");
    Object.assign(this, { name: new.target.name, reason, ...more });
  }
}
export class NoService extends BusError {} // nobody provides the service
export class TimedOut extends BusError {} // no reply came in time
export class Lost extends BusError {} // the connection or provider; `maybeDone`: what was asked for may have been done

/** Connect to a server. Without a URL, that is the one which this module came from. */
export const connect = (url = import.meta.url.replace(/^http/, "ws"), options = {}) => new Bus(url, options);
const lost = (reason, maybeDone = false, message = reason) => new Lost(reason, message, { maybeDone });

/** A promise, and what settles it. Nobody has to wait for it. */
function deferred() {
  let settle;
  const promise = new Promise((resolve, reject) => (settle = { resolve, reject }));
  promise.catch(() => {});
  return { promise, ...settle };
}

/** The bytes of a payload, and its content type. */
function encode(payload, type = typeof payload === "string" ? TEXT : BYTES) {
  if (typeof payload === "string") return [utf8.encode(payload), type];
  if (payload instanceof ArrayBuffer || payload instanceof Uint8Array) return [new Uint8Array(payload), type];
  throw new TypeError("a payload is a string, a Uint8Array or an ArrayBuffer");
}

/** An object as a message. The server would end the connection for half a surrogate pair. */
function frame(metadata, payload = NOTHING) {
  const head = JSON.stringify({ ...metadata, size: payload.length });
  if (/(?<!\\)(\\\\)*\\ud[89a-f]/.test(head)) throw new TypeError("half a surrogate pair is no text");
  const bytes = utf8.encode(`${head}\0`), message = new Uint8Array(bytes.length + payload.length);
  message.set(bytes);
  message.set(payload, bytes.length);
  return message;
}

/** The metadata and the payload of a message of the server; neither if it is malformed. */
function parse(data) {
  try {
    const bytes = new Uint8Array(data), end = bytes.indexOf(0), payload = bytes.subarray(end + 1);
    const metadata = JSON.parse(text.decode(bytes.subarray(0, end)));
    const isObject = Object.getPrototypeOf(metadata) === Object.prototype;
    return isObject && (metadata.size ?? 0) === payload.length ? { metadata, payload } : {};
  } catch {
    return {};
  }
}

/** The messages of some services, and the gaps between them. `ready` is kept when it has begun. */
class Subscription {
  #items = []; #more = deferred(); #begun = deferred();
  ready = this.#begun.promise;
  #end = null; // once it has ended: why, if it failed
  link = null; // the connection on which it has begun

  /** It begins on a connection. If it had begun on an earlier one, nobody knows how much is lost. */
  begin(link) {
    if (this.link && link !== this.link) this.push({ kind: "gap", lost: null, reason: "reconnected" });
    this.link = link;
    this.#begun.resolve();
  }

  push(item) {
    this.#items.push(item);
    this.#more.resolve();
    if (this.#items.length <= this.most) return;
    // One gap takes the place of the two oldest, each of which may be a gap.
    const gone = this.#items.splice(0, 2).map((each) => (each.kind === "gap" ? each.lost : 1));
    const isKnown = !gone.includes(null), reason = isKnown ? "queue-full" : "reconnected";
    this.#items.unshift({ kind: "gap", lost: isKnown ? gone[0] + gone[1] : null, reason });
  }

  close(error) {
    this.left();
    this.#end ??= { error };
    this.#begun.reject(error ?? lost("closed"));
    this.#more.resolve();
  }

  async *[Symbol.asyncIterator]() {
    try {
      while (this.#items.length || !this.#end) {
        if (this.#items.length) yield this.#items.shift();
        else await (this.#more = deferred()).promise;
      }
      if (this.#end.error) throw this.#end.error;
    } finally {
      this.close();
    }
  }
}

class Bus {
  onstate = null; // called with each new state
  #options;
  #link = null; // the connection: { socket, open, names, missed, isUp, isSubscribing, error, watch }
  #state = null; #changed = deferred(); // kept with the next state
  #isClosed = false; #retry = 0; #tries = 0; #ids = 0;
  #prefix = crypto.getRandomValues(new Uint32Array(3)).join("-"); // of ids, which no other client may use
  #subscriptions = new Set();
  #provided = new Map(); // by name: { promise, link, isGranted, handler }; the promise is kept when it is registered

  constructor(url, { user, secret, token, name, reconnect = {}, offline = "raise", silence = 20 }) {
    const back = reconnect && { first: 0.1, most: 30, ...reconnect };
    this.#options = { url, who: { user, name }, proof: { secret, token }, back, offline, silence };
    this.#dial();
  }

  /** Publish. With `confirm`, wait until the server has taken it; fails if the server refuses. */
  async publish(name, payload, { type, confirm = false } = {}) {
    const [bytes, kind] = encode(payload, type), link = await this.#online(), { promise } = this.#provide(name);
    const publication = [{ sender: name, type: kind }, bytes];
    if (!confirm && link.socket.bufferedAmount < MOST_BUFFERED) return link.socket.send(frame(...publication));
    // The server answers in order: the pong comes after all that it says of the publication.
    await Promise.all([promise, this.#ask(link, [publication, [{ event: "ping" }]])]);
  }

  /** Ask a service. Fails with NoService, TimedOut, Lost, or the BusError that came as a reply. */
  async request(name, payload = "", { type, timeout = 10 } = {}) {
    const [bytes, kind] = encode(payload, type), objects = [[{ event: "services/request", name, type: kind }, bytes]];
    const late = deferred(), timer = setTimeout(late.reject, timeout * 1000, new TimedOut("timed-out"));
    const link = Promise.race([this.#online(), late.promise]);
    return link.then((each) => this.#ask(each, objects, late.promise)).finally(() => clearTimeout(timer));
  }

  /** Subscribe: `subscribe("tv", "lamp", { queue: 100 })`. */
  subscribe(...names) {
    const { queue = 1000 } = typeof names.at(-1) === "object" ? names.pop() : {}, made = new Subscription();
    const left = () => this.#subscriptions.delete(made) && this.#subscribe(this.#link);
    this.#subscriptions.add(Object.assign(made, { names, left, most: Math.max(2, queue) }));
    if (this.#isClosed) made.close();
    this.#subscribe(this.#link);
    return made;
  }

  /** Reply to requests with what `handler` returns, a payload or `{ payload, type }`. Kept with what ends that. */
  async serve(name, handler) {
    const service = this.#provide(name);
    if (service.handler) throw new TypeError(`${name} has a handler already`);
    service.handler = handler;
    await service.promise;
    return async () => {
      if (this.#provided.get(name) === service) this.#provided.delete(name);
      if (this.#link?.isUp) await this.#ask(this.#link, [[{ event: "services/unregister", name }]]);
    };
  }

  /** Each state: `{ state: "up", routingId }` or `{ state: "down", reason, retryIn }`, in seconds. */
  async *states() {
    for (let told = null; told !== this.#state || !this.#isClosed; ) {
      if (told !== this.#state) yield (told = this.#state);
      else await this.#changed.promise;
    }
  }

  close() {
    this.#options.back = null;
    this.#lose(this.#link, "closed");
  }

  async #online() {
    for (; !this.#link?.isUp; await this.#changed.promise) {
      const mayWait = this.#options.offline === "wait" && !this.#isClosed;
      if (this.#state && !mayWait) throw lost(this.#state.reason);
    }
    return this.#link;
  }

  /** Send objects, each `[metadata, payload]`. Kept with the answer, unless `late` fails before. */
  async #ask(link, objects, late) {
    const id = `${this.#prefix}-${++this.#ids}`, asked = deferred();
    for (const each of objects.map(([metadata, bytes]) => frame({ ...metadata, id }, bytes))) link.socket.send(each);
    link.open.set(id, asked);
    late?.catch((error) => link.open.delete(id) && asked.reject(error));
    return asked.promise;
  }

  #dial() {
    const { url, who, proof, silence } = this.#options, socket = new WebSocket(url);
    const link = (this.#link = { socket, open: new Map(), names: "[]", missed: 0 });
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => link === this.#link && this.#receive(link, data);
    socket.onerror = socket.onclose = ({ reason }) => this.#lose(link, reason || link.error || "connection-lost");
    link.watch = setInterval(() => this.#watch(link), silence * 1000);
    socket.onopen = () => this.#ask(link, [[{ ...JOIN, ...who, ...proof }]]).then(({ metadata }) => {
      link.isUp = true;
      this.#tell({ state: "up", routingId: metadata["routing-id"] });
      this.#subscribe(link);
      for (const name of this.#provided.keys()) this.#provide(name);
    }, ({ reason }) => this.#lose(link, reason));
  }

  /** Let the server know the names of all subscriptions. Only one such question is open at a time. */
  async #subscribe(link) {
    if (!link?.isUp || link.isSubscribing) return;
    const all = [...this.#subscriptions], services = [...new Set(all.flatMap((each) => each.names))];
    const names = JSON.stringify(services), fresh = all.filter((each) => !each.link);
    if (names === link.names) return all.forEach((each) => each.begin(link));
    link.isSubscribing = true;
    const asked = this.#ask(link, [[{ ...JOIN, ...this.#options.who, services }]]);
    const refused = await asked.then(() => void (link.names = names), (error) => error);
    link.isSubscribing = false;
    // Names that were granted may be granted again, on the next connection.
    if (refused && !fresh.length) this.#lose(link, refused.reason);
    if (link !== this.#link) return;
    if (refused) for (const each of fresh) each.close(refused);
    this.#subscribe(link);
  }

  /** A service that is registered on this connection, and on each later one. */
  #provide(name) {
    const service = this.#provided.get(name) ?? deferred(), link = this.#link;
    if (this.#isClosed) throw lost("closed");
    this.#provided.set(name, service);
    if (!link?.isUp || service.link === link) return service;
    service.link = link;
    const granted = () => service.resolve((service.isGranted = true));
    this.#ask(link, [[{ event: "services/register", name }]]).then(granted, (error) => {
      if (service.isGranted) this.#lose(link, error.reason);
      if (link !== this.#link) return;
      this.#provided.delete(name);
      service.reject(error);
    });
    return service;
  }

  #receive(link, data) {
    const { metadata, payload } = parse(data);
    if (!metadata) return this.#lose(link, "malformed");
    link.missed = 0;
    const { event, sender, name, route, reason, message, "in-reply-to": id } = metadata, asked = link.open.get(id);
    const about = { type: metadata.type ?? BYTES, metadata, provider: Array.isArray(route) ? route[0] : undefined };
    const said = { kind: "message", service: event ? name : sender, payload, ...about };
    if (event === "services/request") this.#reply(link, said);
    link.error = event === "error" && !asked ? reason : undefined; // the last words before the end
    if (!event) for (const each of this.#subscriptions) if (each.names.includes(sender)) each.push(said);
    // Clients may send a pong to each other, but only that of the server has no route.
    if (!event || !asked || (event === "pong" && route)) return;
    link.open.delete(id);
    if (event !== "error") asked.resolve(said);
    else if (reason === "provider-gone") asked.reject(lost(reason, true, message));
    else asked.reject(new (reason === "no-such-service" ? NoService : BusError)(reason, message));
  }

  async #reply(link, asked) {
    const service = this.#provided.get(asked.service);
    if (!service) return;
    const about = { "in-reply-to": asked.metadata.id, to: asked.provider, name: asked.service };
    try {
      if (!service.handler) throw new BusError("not-served", `${asked.service} only publishes`);
      const made = (await service.handler(asked)) ?? "";
      const [bytes, type] = made.payload === undefined ? encode(made) : encode(made.payload, made.type);
      link.socket.send(frame({ event: "services/reply", ...about, type }, bytes));
    } catch (error) {
      if (!(error instanceof BusError)) console.error(error);
      const { reason, message } = error instanceof BusError ? error : new BusError("failed", "the service failed");
      link.socket.send(frame({ event: "error", ...about, reason, message }));
    }
  }

  #watch(link) {
    if (!link.isUp || link.missed > 1) return this.#lose(link, "silent");
    if (link.missed++) this.#ask(link, [[{ event: "ping" }]]).catch(() => {});
    this.#tries = 0;
  }

  #lose(link, reason) {
    if (link !== this.#link || this.#isClosed) return;
    this.#link = null;
    clearTimeout(this.#retry);
    clearInterval(link?.watch);
    link?.socket.close();
    for (const { reject } of link?.open.values() ?? []) reject(lost(reason, true));
    const { back } = this.#options;
    const retryIn = back && Math.min(back.most, back.first * 2 ** this.#tries++) * (0.5 + Math.random() / 2);
    if (back) this.#retry = setTimeout(() => this.#dial(), retryIn * 1000);
    this.#tell({ state: "down", reason, retryIn });
    if (back) return;
    this.#isClosed = true;
    for (const each of this.#subscriptions) each.close(reason === "closed" ? undefined : lost(reason));
    for (const { reject } of this.#provided.values()) reject(lost(reason));
  }

  #tell(state) {
    this.#state = state;
    this.#changed.resolve();
    this.#changed = deferred();
    queueMicrotask(() => this.onstate?.(state));
  }
}
