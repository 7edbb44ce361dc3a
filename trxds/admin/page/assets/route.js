// What the address names: the view, and what it shows. Pure. `#resources?channel=shop&open=shop%2FCDS%2Fcart` is
// {view: "resources", channel: "shop", find: "", open: "shop/CDS/cart", by: ""}.

const PLACE_PARTS = ["channel", "find", "open", "by"];

function placeFrom(hash, views) {
  const [view, query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const given = new URLSearchParams(query);
  const place = { view: views.includes(view) ? view : "sessions" };
  for (const part of PLACE_PARTS) place[part] = given.get(part) ?? "";
  return place;
}

function hashOf(place) {
  const given = new URLSearchParams();
  for (const part of PLACE_PARTS) if (place[part]) given.set(part, place[part]);
  const query = given.toString();
  return `#${place.view}${query && `?${query}`}`;
}
