// Requests to the server that the page comes from.

import { keep, recall } from "./memory.js";

/** An answer that is an error, as a sentence. `status` 0: there was no answer. */
export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export function createServer(askForKey) {
  let key = recall("key", "sessionStorage") ?? "";

  async function send(path, options = {}) {
    const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
    let answer;
    try {
      answer = await fetch(path, { ...options, headers, credentials: "omit" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused("The server does not answer.", 0);
    }
    if (answer.ok) return answer;
    const message = await explained(answer);
    if (answer.status !== 401 && !(answer.status === 403 && message.includes("key"))) {
      throw new Refused(message, answer.status);
    }
    key = await askForKey(key ? "The key is wrong." : "Your administrator has it.");
    keep("key", key, "sessionStorage");
    return send(path, options);
  }

  const post = (path, body, signal) => send(path, {
    method: "POST", body: JSON.stringify(body), signal, headers: { "Content-Type": "application/json" },
  });

  return {
    models: [],
    get: async (path) => (await send(path)).json(),

    /** The requests about one model. */
    of: ({ id: model }) => ({
      /** Predictions, one per input. */
      async predict(inputs, options = {}, signal = undefined) {
        return (await (await post("v1/predict", { model, inputs, options }, signal)).json()).predictions;
      },

      /** Which parts of the source each part of the output attends to. */
      async alignment(input) {
        return (await post("v1/look", { model, input, format: "alignment" })).json();
      },

      /**
       * Open the look page of an input, and of one of its outputs (the best one if none is given), in a new
       * tab: a form, because texts must not be in an address.
       */
      look(input, output = null) {
        const form = document.createElement("form");
        form.action = "v1/look";
        form.method = "post";
        form.target = "_blank";
        const text = typeof input === "string";
        const given = text ? { input } : { input: JSON.stringify(input), encoded: true };
        const chosen = output === null ? {} : { output };
        const fields = { model, ...given, ...chosen, format: "html", ...(key ? { api_key: key } : {}) };
        for (const [name, value] of Object.entries(fields)) {
          const field = document.createElement("textarea");
          field.name = name;
          field.value = value;
          form.append(field);
        }
        form.hidden = true;
        document.body.append(form);
        form.submit();
        form.remove();
      },

      /** Store what the output should have been. */
      correct: (input, expected, output) => post("v1/corrections", { model, input, expected, output }),

      /** Call `grown` with each new part of a text; resolves when it is complete. */
      async stream(path, body, grown, signal) {
        const answer = await post(path, { model, ...body, stream: true }, signal);
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = "";
        for (;;) {
          const { value, done } = await reader.read();
          if (done) return;
          const events = (rest + value).split("\n\n");
          rest = events.pop();
          for (const event of events) {
            const data = event.replace(/^data: /, "");
            if (data === "[DONE]") return;
            const part = JSON.parse(data);
            if (part.error) throw new Refused(part.error.message, 500);
            const [choice] = part.choices;
            grown(choice.text ?? choice.delta.content ?? "", choice.finish_reason);
          }
        }
      },
    }),
  };
}

async function explained(answer) {
  try {
    const { error } = await answer.json();
    const message = typeof error === "string" ? error : error.message;
    const wait = answer.headers.get("Retry-After");
    return wait ? `${message} (in ${wait} s)` : message;
  } catch {
    return `The server answered ${answer.status}.`;
  }
}
