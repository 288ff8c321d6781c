/** Checks of a response that hold for every request. */
import { ERRORS, type ErrorCode } from '@instar/events'
import type { Shot } from './shots.ts'
import type { Answer, Exchange } from './wire.ts'

/** Codes with status 5xx that are correct for a working gateway: the service does not exist in this process. */
const RIGHT = new Set<ErrorCode>(['not_available', 'no_equivalent'])
/** Paths of the source tree, source positions, and V8's error messages. */
const INSIDE =
  /node:internal|\.ts:\d+|\/services\/|\/packages\/|node_modules|at Object\.|is not a function|Cannot read prop|\[object Object\]|is not iterable/

type Fault = { code: ErrorCode }
type Json = Record<string, unknown>

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** In Anthropic's form or in OpenAI's; undefined if it is neither. */
const faultIn = (value: unknown, anthropic: boolean, requestId: string | undefined): Fault | undefined => {
  if (!isObject(value) || !isObject(value['error'])) return undefined
  const { error } = value
  if (
    typeof error['message'] !== 'string' ||
    error['message'] === '' ||
    typeof error['type'] !== 'string' ||
    typeof error['code'] !== 'string' ||
    !Object.hasOwn(ERRORS, error['code'])
  )
    return undefined
  const shaped = anthropic
    ? value['type'] === 'error' && (requestId === undefined || value['request_id'] === requestId)
    : Object.keys(value).length === 1 && (error['param'] === null || typeof error['param'] === 'string')
  return shaped ? (error as Fault) : undefined
}

const ofOurs = ({ code }: Fault): string[] =>
  code === 'internal' || (ERRORS[code].status >= 500 && !RIGHT.has(code)) ? [`a fault of ours: ${code}`] : []

/** Whether the path has the dialect of Messages; token counting is one of them. */
const isAnthropic = (path: string): boolean => path.split('?')[0]!.slice(0, 200).includes('/v1/messages')

const TERMINAL: readonly (readonly [path: RegExp, end: RegExp])[] = [
  [/\/messages$/, /event: (message_stop|error)\ndata: [^\n]*\n\n$/],
  [/\/responses$/, /event: (response\.(completed|incomplete|failed)|error)\ndata: [^\n]*\n\n$/],
  [/\/chat\/completions$/, /data: \[DONE\]\n\n$/],
]

const streamed = ({ path }: Shot, { body }: Answer): string[] => {
  const text = body.toString()
  const end = TERMINAL.find(([at]) => at.test(path.split('?')[0]!))?.[1]
  const findings = end && !end.test(text) ? [`a stream without its end: ${JSON.stringify(text.slice(-200))}`] : []
  for (const frame of text.split('\n\n').slice(0, -1)) {
    if (frame.startsWith(':')) continue
    const data = /^(?:event: [\w.]+\n)?data: ([^\n]*)$/.exec(frame)?.[1]
    const value = data === undefined || data === '[DONE]' ? data : parsed(data)
    if (value === undefined) findings.push(`a frame that is none: ${JSON.stringify(frame.slice(0, 200))}`)
    else if (isObject(value) && isObject(value['error']))
      findings.push(`a fault in a stream: ${String(value['error']['code'])}`)
  }
  return findings
}

/** `last`: it is the last response of its connection, which the client may have cut. */
const ofAnswer = (shot: Shot, answer: Answer, mayBeCut: boolean): string[] => {
  const { status, headers, body, whole } = answer
  const type = headers.get('content-type') ?? ''
  if (!whole) return mayBeCut ? [] : ['an answer without its end']
  const findings =
    INSIDE.test(body.toString('utf8').slice(0, 5000)) && !shot.path.includes('/openapi.json')
      ? [`it says what is inside: ${body.toString().slice(0, 300)}`]
      : []
  if (status < 400) {
    if (type.startsWith('text/event-stream')) return [...findings, ...streamed(shot, answer)]
    if (type.startsWith('application/json') && shot.method !== 'HEAD' && parsed(body.toString()) === undefined)
      findings.push('it is said to be JSON')
    return findings
  }
  if (shot.method === 'HEAD') return findings
  const requestId = headers.get('request-id')
  const said = type.startsWith('application/json') ? parsed(body.toString()) : undefined
  // For bytes without a clear path either form is correct; for models the form depends on a header.
  const shapes =
    shot.method === 'raw' || shot.path.includes('/models')
      ? [true, false]
      : [requestId !== undefined && isAnthropic(shot.path)]
  const fault = shapes.map((anthropic) => faultIn(said, anthropic, requestId)).find((found) => found !== undefined)
  if (!fault)
    return [...findings, `${status} ${type}: not the shape of a fault there: ${body.toString().slice(0, 300)}`]
  if (ERRORS[fault.code].status !== status) findings.push(`${fault.code} with ${status}`)
  return [...findings, ...ofOurs(fault)]
}

export const findingsIn = (shot: Shot, { answers, rest, error }: Exchange): string[] => [
  ...answers.flatMap((answer, i) =>
    ofAnswer(shot, answer, i === answers.length - 1 && (shot.leaves !== 'never' || shot.silence)),
  ),
  ...(answers.length === 0 && !shot.silence && shot.leaves === 'never' ? [`no answer (${error ?? 'closed'})`] : []),
  ...(error === 'nothing ended it' ? ['nothing ended it'] : []),
  ...(rest.length > 0 && shot.leaves === 'never'
    ? [`bytes that are no answer: ${JSON.stringify(rest.toString('latin1').slice(0, 200))}`]
    : []),
]

/** For statistics: the status and the error code. */
export const kindOf = ({ status, body, headers }: Answer): string => {
  if (status < 400)
    return headers.get('content-type')?.startsWith('text/event-stream') ? `${status} stream` : String(status)
  const value = parsed(body.toString())
  return `${status} ${isObject(value) && isObject(value['error']) ? String(value['error']['code']) : ''}`.trimEnd()
}
