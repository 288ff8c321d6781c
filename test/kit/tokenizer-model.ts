/** The tiny model without its weights: its tokenizer and its chat template. */
import { Prompter } from '@instar/policy/chat/prompt'
import { ChatTemplate } from '@instar/policy/chat/template'
import type { Model } from '@instar/engine/port'
import { Detokenizer } from '@instar/policy/tokenizer/detokenizer'
import { TextTokenizer } from '@instar/policy/tokenizer/tokenizer'
import { readFileSync } from 'node:fs'

const read = (name: string): string => readFileSync(new URL(`../../models/tiny/${name}`, import.meta.url), 'utf8')

export const tokenizerModel = (contextLength = 2048): Model => {
  const tokenizer = new TextTokenizer(JSON.parse(read('tokenizer.json')), JSON.parse(read('tokenizer_config.json')))
  const end = tokenizer.id('<|im_end|>')!
  const prompter = new Prompter(tokenizer, new ChatTemplate(read('chat_template.jinja')), {
    bosToken: '',
    eosToken: '<|im_end|>',
    endOfTurn: [end],
  })
  return {
    name: 'tiny',
    sha256: 'none',
    contextLength,
    vocabulary: 4096,
    defaults: { temperature: 0.7, topP: 1, topK: 0 },
    endOfTurn: [end],
    encode: (text) => tokenizer.encode(text),
    decode: (ids) => tokenizer.decode(ids),
    detokenizer: () => new Detokenizer(tokenizer),
    render: (messages, options) => prompter.render(messages, options),
    promptIds: (messages, options) => prompter.ids(messages, { ...options, addGenerationPrompt: true }),
  }
}
