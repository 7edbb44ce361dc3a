// How numbers, times and states are said. Pure.

// Colour never stands alone: each tone has a shape of its own, and the word is beside it.
const TONES = {
  READY: "good", HEALTHY: "good", UNKNOWN: "good", acked: "good", ACK: "good", OK: "good",
  CONNECTING: "busy", requested: "busy", open: "busy",
  IDLE: "calm", SHUTDOWN: "calm", removed: "calm",
  DRAINING: "warn", timeout: "warn", stale: "warn", ejected: "warn", warm: "calm",
  TRANSIENT_FAILURE: "bad", nacked: "bad", NACK: "bad", does_not_exist: "bad", received_error: "bad",
};

const SHAPES = { good: "●", busy: "◐", calm: "○", warn: "◆", bad: "▲" };

function toneOf(word) {
  return TONES[word] ?? "calm";
}

// A call's status: everything but OK is somebody's trouble.
function toneOfStatus(status) {
  return status === "" ? "busy" : status === "OK" ? "good" : "bad";
}

// Of a duration in seconds, two figures at most: whoever reads wants to know how long, not exactly how long.
function age(seconds) {
  if (seconds < 1) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

function ago(seconds) {
  return seconds < 1 ? "now" : `${age(seconds)} ago`;
}

// Of a call's time in seconds.
function millis(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const ms = seconds * 1000;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(1)} s`;
}

function perSecond(rate) {
  if (rate >= 10000) return `${(rate / 1000).toFixed(0)}k/s`;
  if (rate >= 1000) return `${(rate / 1000).toFixed(1)}k/s`;
  if (rate >= 10 || rate === 0) return `${Math.round(rate)}/s`;
  return `${rate.toFixed(1)}/s`;
}

function count(number) {
  return number.toLocaleString("en").replaceAll(",", "\u202f");
}

function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

// The time of day of seconds since 1970.
function clock(time) {
  const at = new Date(time * 1000);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

function clockFine(time) {
  return `${clock(time)}.${String(Math.floor((time % 1) * 1000)).padStart(3, "0")}`;
}

function percent(share) {
  return `${Math.round(share * 100)} %`;
}

// Why a session left its host, as `last_move.reason` has it, in words.
const REASONS = {
  no_cookie: "the call had no cookie, or one that is too old",
  cluster_mismatch: "the route does not have that cluster any more",
  unknown_host: "the host was removed, or is DRAINING and may not be used",
  status_not_allowed: "the host drains, and its cluster keeps no session there",
  not_ready: "the host could not be reached",
  requested: "the program moved it",
  released: "the program let it choose anew",
  rebalanced: "the host had more than its fair share of sessions",
};

function reasonInWords(reason) {
  return REASONS[reason] ?? reason;
}

// xDS names of policies without what all of them have.
function shortPolicy(policy) {
  return policy.replace(/_experimental$/, "").replace(/^xds_/, "");
}
