// Several programs on one page: what a program says, under keys that have its name. Pure.

const KEYS_OF = { nodes: ["channel", "parent"], channels: ["client"] }; // fields with keys; of other rows the channel

// The name stands before each key; a page with one program has no names.
function keyIn(program, key) {
  return program === "" || !key ? key : `${program}: ${key}`;
}

// A message with the keys of that program.
function ofProgram(program, message) {
  if (program === "") return message;
  const made = { ...message };
  if (message.snapshot)
    made.snapshot = Object.fromEntries(
      Object.entries(message.snapshot).map(([section, rows]) => [
        section,
        Object.fromEntries(Object.entries(rows).map(([key, row]) => [keyIn(program, key), rowOf(program, section, row)])),
      ]),
    );
  if (message.changes)
    made.changes = message.changes.map(({ section, key, value }) => ({
      section,
      key: keyIn(program, key),
      value: value && rowOf(program, section, value),
    }));
  if (message.events) made.events = message.events.map((event) => eventOf(program, event));
  return made;
}

function rowOf(program, section, row) {
  const made = { ...row };
  for (const field of KEYS_OF[section] ?? ["channel"]) if (row[field]) made[field] = keyIn(program, row[field]);
  if (row.children) made.children = row.children.map((key) => keyIn(program, key));
  return made;
}

function eventOf(program, event) {
  const made = { ...event };
  for (const field of ["channel", "session"]) if (event[field]) made[field] = keyIn(program, event[field]);
  return made;
}

// Whose key it is, and what the program itself calls it.
function programOf(programs, key) {
  const name = programs.find((each) => each !== "" && key.startsWith(`${each}: `)) ?? programs[0] ?? "";
  return { program: name, key: name === "" || !key.startsWith(`${name}: `) ? key : key.slice(name.length + 2) };
}
