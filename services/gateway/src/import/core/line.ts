/** Parses one line of a file in any of the supported formats. */
import { isFields, wrong, type Fields } from '@instar/dialects'
import { isConversationLine, readConversation } from './conversations.ts'
import { isRequestLine, readRequest } from './requests.ts'
import type { Reading, ImportedRequest } from './imported-request.ts'
import { isStep, placeOf, readStep } from './steps.ts'

/** The turns of a line in order, each with its step index if the line is a trajectory's. Throws `bad_request`. */
export const readLine = (line: Fields, reading: Reading): { spoken: ImportedRequest; place: number | null }[] => {
  if (isStep(line)) return [{ spoken: readStep(line, reading), place: placeOf(line) }]
  if (Array.isArray(line['steps']) && line['steps'].every((step): step is Fields => isFields(step) && isStep(step)))
    return line['steps'].map((step) => ({ spoken: readStep(step, reading), place: placeOf(step) }))
  if (isRequestLine(line)) return [{ spoken: readRequest(line, reading), place: null }]
  if (isConversationLine(line)) return readConversation(line, reading).map((spoken) => ({ spoken, place: null }))
  throw wrong(
    'The line',
    '{request, response}, a conversation {messages: […]}, or a step {prompt_ids, response_ids, …}',
  )
}

/** Whether parsing the line needs the model's tokenizer. */
export const holdsIds = (line: Buffer): boolean => line.includes('"prompt_ids"') || line.includes('"token_ids"')
