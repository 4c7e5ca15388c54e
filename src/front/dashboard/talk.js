/* The playground: a chat that streams, and a recording to be written down. */

const turns = []; /* of the conversation, as the API wants them */
let chatting = null, transcribing = null; /* AbortControllers of what is under way */

/* The events of a stream, as their data. */
async function* eventsOf(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts)
      if (part.startsWith("data: ")) yield part.slice(6);
  }
}

/* What an answer that is none says, in its own words. */
async function errorOf(answer) {
  const text = await answer.text();
  try {
    return JSON.parse(text).error.message;
  } catch {
    return `status ${answer.status}`;
  }
}

function say(who, text) {
  const name = make("span", {class: "hidden"}, who === "user" ? "You: " : "Model: "), words = make("span", {}, text);
  const log = $("chat-log");
  log.append(make("div", {class: `said ${who}`}, name, words));
  log.scrollTop = log.scrollHeight;
  return words;
}

function chatBusy(controller) {
  chatting = controller;
  $("chat-send").disabled = Boolean(controller);
  $("chat-stop").disabled = !controller;
}

/* Words of one answer, as they come. Returns its text. */
async function readAnswer(answer, words, started) {
  const log = $("chat-log");
  let text = "", n = 0;
  for await (const data of eventsOf(answer)) {
    if (data === "[DONE]") break;
    const event = JSON.parse(data);
    if (event.error) throw new Error(event.error.message);
    const more = event.choices?.[0]?.delta?.content;
    if (event.usage) n = event.usage.completion_tokens;
    if (!more) continue;
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    words.append(more);
    text += more;
    if (atEnd) log.scrollTop = log.scrollHeight;
  }
  const seconds = (performance.now() - started) / 1000;
  put($("chat-state"), `Done: ${plural(n, "token", "tokens")} in ${seconds.toFixed(1)} s, ${rate(n / seconds)}.`);
  return text;
}

/* A question that has no answer is not asked: it is to be sent again. */
function takeBack(asked, words, text) {
  turns.pop();
  asked.parentNode.remove();
  words.parentNode.remove();
  $("chat-text").value ||= text;
}

async function chat(text) {
  const controller = new AbortController(), started = performance.now();
  turns.push({role: "user", content: text});
  const asked = say("user", text), words = say("assistant", "");
  chatBusy(controller);
  put($("chat-state"), "The model answers.");
  try {
    const answer = await ask("/v1/chat/completions", {method: "POST", signal: controller.signal, headers: {"Content-Type": "application/json"},
      body: JSON.stringify({model: $("chat-model").value, messages: turns, stream: true, stream_options: {include_usage: true},
        max_completion_tokens: Number($("chat-tokens").value), temperature: Number($("chat-temperature").value)})});
    if (!answer.ok) throw new Error(await errorOf(answer));
    turns.push({role: "assistant", content: await readAnswer(answer, words, started)});
  } catch (error) {
    const isOurs = controller.signal.aborted;
    put($("chat-state"), isOurs ? "Stopped." : `It did not work: ${error.message}`);
    if (words.textContent) turns.push({role: "assistant", content: words.textContent}); /* so much was said */
    else takeBack(asked, words, text);
  }
  chatBusy(null);
}

$("chat-form").addEventListener("submit", event => {
  event.preventDefault();
  const text = $("chat-text").value.trim();
  if (!text || chatting) return;
  $("chat-text").value = "";
  chat(text);
});
$("chat-text").addEventListener("keydown", event => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("chat-form").requestSubmit();
});
$("chat-stop").addEventListener("click", () => {
  chatting?.abort();
  $("chat-text").focus();
});
$("chat-clear").addEventListener("click", () => {
  chatting?.abort();
  turns.length = 0;
  $("chat-log").replaceChildren();
  put($("chat-state"), "");
  $("chat-text").focus();
});

/* --- speech ----------------------------------------------------------------------------------- */

$("speech-form").addEventListener("submit", async event => {
  event.preventDefault();
  const form = new FormData(), started = performance.now();
  form.append("file", $("speech-file").files[0]);
  form.append("model", $("speech-model").value);
  form.append("response_format", "json");
  transcribing = new AbortController();
  $("speech-send").disabled = true;
  $("speech-stop").disabled = false;
  put($("speech-state"), "The model listens.");
  try {
    const answer = await ask("/v1/audio/transcriptions", {method: "POST", body: form, signal: transcribing.signal});
    if (!answer.ok) throw new Error(await errorOf(answer));
    put($("speech-text"), (await answer.json()).text);
    $("speech-text").hidden = false;
    put($("speech-state"), `Done in ${((performance.now() - started) / 1000).toFixed(1)} s.`);
  } catch (error) {
    put($("speech-state"), transcribing.signal.aborted ? "Stopped." : `It did not work: ${error.message}`);
  }
  $("speech-send").disabled = false;
  $("speech-stop").disabled = true;
});
$("speech-stop").addEventListener("click", () => {
  transcribing?.abort();
  $("speech-file").focus();
});
