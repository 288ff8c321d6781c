/** Before the first turn: how an agent connects, and a chat to try it. */
import { html, type View } from '../html.ts'
import { Talk } from './talk.ts'

const snippets = (base: string, model: string): readonly (readonly [name: string, text: string])[] => [
  [
    'curl',
    `curl ${base}/v1/chat/completions -H 'content-type: application/json' \\\n  -d '{"model": "${model}", "messages": [{"role": "user", "content": "What is the capital of France?"}]}'`,
  ],
  [
    'OpenAI SDK (Python)',
    `from openai import OpenAI\nclient = OpenAI(base_url="${base}/v1", api_key="none")\nclient.chat.completions.create(model="${model}", messages=[{"role": "user", "content": "Hello"}])`,
  ],
  [
    'OpenAI SDK (JavaScript)',
    `import OpenAI from 'openai'\nconst client = new OpenAI({ baseURL: '${base}/v1', apiKey: 'none' })\nawait client.chat.completions.create({ model: '${model}', messages: [{ role: 'user', content: 'Hello' }] })`,
  ],
  ['Claude Code', `ANTHROPIC_BASE_URL=${base} ANTHROPIC_AUTH_TOKEN=none claude --model ${model}`],
  ['Any agent', `OPENAI_BASE_URL=${base}/v1\nOPENAI_API_KEY=none   # where the gateway has keys: one of them`],
]

export const Connect = ({ model }: { model: string }): View => {
  const base = location.origin
  return html`
    <h1>No conversation yet</h1>
    <p>Point an agent at <code>${base}/v1</code>, or talk to the model below. Each answer is written to the log; your
      next message says how good it was, and after 16 scored turns the model learns from them.</p>
    <div class="cards">
      <section class="card wide"><h2>Connect an agent</h2>
        ${snippets(base, model).map(
          ([name, text], i) => html`<details open=${i === 0}><summary>${name}</summary><pre>${text}</pre></details>`,
        )}
      </section>
      <section class="card wide"><h2>Or talk to it here</h2><${Talk} model=${model} /></section>
    </div>
  `
}
