// A chat: stop, regenerate, edit and resend, copy, export, temperature and seed.

import { button, element, fill, slider } from "../lens/elements.js";
import { copyButton, latest, statusLine } from "../parts.js";

export function panel(model, server) {
  const messages = []; // {role, content}
  const chosen = { temperature: 0.8, seed: 1, length: 300 };
  // a model of conversations takes the turns as they are
  const turns = model.task === "conversation" ? model.roles.find(({ needed }) => needed === "always")?.name : null;
  const status = statusLine();
  const work = latest(status);
  const list = element("div", { class: "chat", role: "log", "aria-live": "polite" });
  const input = element("textarea", {
    "aria-label": "Message", placeholder: "Write a message", rows: 2, dir: "auto",
    onkeydown: (event) => {
      if (event.key === "Escape") work.stop();
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      send();
    },
  });
  const act = element("div", { class: "act" });
  const controls = element("div", { class: "controls" });
  drawAll();

  function send() {
    const text = input.value.trim();
    if (!text || work.busy) return;
    input.value = "";
    messages.push({ role: "user", content: text });
    reply();
  }

  /** Asks for a reply to what is there. What has arrived when it is stopped stays. */
  function reply() {
    const answer = { role: "assistant", content: "" };
    const asked = messages.map((message) => ({ ...message }));
    messages.push(answer);
    drawAll();
    const bubble = list.lastElementChild.querySelector(".text");
    const { temperature, seed, length: max_tokens } = chosen;
    const options = model.retrieves ? {} : { temperature, seed, max_tokens };
    work.run((signal) => server.stream("v1/chat/completions",
      { messages: asked, ...options }, (part) => {
        const low = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
        const more = answer.content ? part : part.trimStart();
        answer.content += more;
        bubble.append(more); // one more text, not the whole page again
        if (low) list.scrollTop = list.scrollHeight;
      }, signal)).finally(() => {
      if (messages.at(-1) === answer && !answer.content) messages.pop();
      drawAll();
      input.focus();
    });
    drawControls();
  }

  function drawAll() {
    const low = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    fill(list, messages.length ? messages.map(drawMessage)
      : element("p", { class: "quiet hint" }, "Enter sends, Shift+Enter begins a line, Escape stops."));
    if (low) list.scrollTop = list.scrollHeight;
    drawControls();
  }

  function drawMessage(message, place) {
    const tools = element("div", { class: "tools" }, copyButton(() => message.content));
    if (!work.busy && message.role === "user") tools.append(button("Edit", () => edit(place)));
    if (!work.busy && message.role === "assistant" && place === messages.length - 1) {
      tools.append(button("Again", () => again(place)));
      if (model.traced && turns) {
        const before = () => messages.slice(0, place).map(({ content }) => content);
        tools.append(button("Look inside", () => server.look({ [turns]: before() }, message.content)));
      }
    }
    return element("article", { class: `message ${message.role}` },
      element("p", { class: "text", dir: "auto" }, message.content), tools);
  }

  /** Another reply in the place of the last one. */
  function again(place) {
    messages.length = place;
    chosen.seed = (chosen.seed % 99) + 1;
    reply();
  }

  /** Takes a message back into the field; sending it replaces everything from there on. */
  function edit(place) {
    input.value = messages[place].content;
    messages.length = place;
    drawAll();
    input.focus();
  }

  function save() {
    const text = JSON.stringify({ messages }, null, 1);
    const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })),
      download: `${model.id}-chat.json` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function drawControls() {
    fill(act, work.busy ? button("Stop", () => work.stop(), { class: "primary" })
      : button("Send", send, { class: "primary" }));
    const sampling = model.retrieves ? [] : [
      slider("Temperature", { min: 0, max: 2, step: 0.1, value: chosen.temperature, format: (x) => x.toFixed(1) },
        (value) => { chosen.temperature = value; }),
      slider("Seed", { min: 1, max: 99, step: 1, value: chosen.seed, format: String },
        (value) => { chosen.seed = value; }),
    ];
    fill(controls, ...sampling,
      messages.length && !work.busy ? button("Export", save) : null,
      messages.length && !work.busy ? button("Clear", () => { messages.length = 0; drawAll(); }) : null);
  }

  return element("section", { class: "panel" }, list, status.node,
    element("div", { class: "compose" }, input, act), controls);
}
