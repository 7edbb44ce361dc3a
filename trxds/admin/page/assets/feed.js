// The WebSocket: messages in, and for each of them a word that it was shown, which is what paces the program's side.

const PROTOCOL = "trxds.admin";
const AGAIN = [0.5, 1, 2, 5]; // seconds until the next try

class FeedLink {
  // `program` is the number of a program at a relay; null asks the program that served the page.
  constructor({ token, program = null, message, state }) {
    this.token = token;
    this.program = program;
    this.message = message;
    this.state = state; // told "connecting", "live", "lost"
    this.tries = 0;
    this.socket = null;
    this.why = ""; // the socket will be lost
  }

  open() {
    if (this.tries === 0) this.state("connecting", "");
    const url = new URL("state", location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    url.hash = "";
    url.search = this.program === null ? "" : `?program=${this.program}`;
    this.socket = new WebSocket(url, this.token ? [PROTOCOL, `token.${this.token}`] : [PROTOCOL]);
    let isLive = false; // a relay opens the socket before it has the program
    this.why = "";
    this.socket.addEventListener("message", (event) => {
      const message = JSON.parse(event.data);
      if (message.lost) {
        this.why = message.lost; // the close reason of a WebSocket has no room for it
        return;
      }
      if (!isLive) this.state("live", "");
      isLive = true;
      this.tries = 0;
      this.message(message);
    });
    this.socket.addEventListener("close", (event) => this.closed(event));
  }

  closed(event) {
    const wait = AGAIN[Math.min(this.tries, AGAIN.length - 1)];
    this.tries += 1;
    this.state("lost", this.why || event.reason || "the program has gone, or does not let this page in");
    setTimeout(() => this.open(), wait * 1000);
  }

  send(message) {
    if (this.socket?.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify(message));
    return true;
  }
}

// The token stands behind the # of the address, which no browser sends anywhere; from there it goes out of sight.
function takeToken() {
  const found = location.hash.match(/^#token=([A-Za-z0-9._~-]+)$/);
  if (found !== null) {
    sessionStorage.setItem("token", found[1]);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem("token");
}
