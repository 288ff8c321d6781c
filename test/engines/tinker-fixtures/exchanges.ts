/** What was recorded of a real Tinker server. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Binary bodies are base64; null: empty. */
export type RecordedBody = { text: string } | { base64: string } | null

/** `scene`: what the client was doing. `type` and `answered`: content types of request and response. */
export type Exchange = {
  scene: string
  method: string
  path: string
  encoding?: string
  type: string
  request: RecordedBody
  status: number
  answered: string
  location?: string
  response: RecordedBody
}

export const bytesOf = (body: RecordedBody): Buffer => {
  if (body === null) return Buffer.alloc(0)
  return 'text' in body ? Buffer.from(body.text) : Buffer.from(body.base64, 'base64')
}

/** The recorded exchanges of a file, in the order of the responses. */
export const exchanges = (name: string): Exchange[] =>
  readFileSync(join(import.meta.dirname, name), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Exchange)
