/**
 * The loggable parts of an error: name, code and stack frames of each cause. Never a message, which may quote user
 * text.
 */
export type Trace = { name: string; code: string | null; at: string[] }

const DEEPEST = 5
/** A stack frame as V8 writes it. A line of the error's message between name and frames does not match. */
const PLACE = /^\s+at .*(?::\d+:\d+|\((?:native|index \d+|<anonymous>)\))\)?$/

export const traceOf = (error: unknown): Trace[] => {
  const traces: Trace[] = []
  for (let at = error; at instanceof Error && traces.length < DEEPEST; at = at.cause) {
    const { code } = at as Error & { code?: unknown }
    traces.push({ name: at.constructor.name, code: typeof code === 'string' ? code : null, at: placesOf(at) })
  }
  return traces
}

const placesOf = ({ stack = '', message }: Error): string[] => {
  const quoted = message === '' ? -1 : stack.indexOf(message)
  const places = quoted < 0 ? stack : stack.slice(quoted + message.length)
  return places
    .split('\n')
    .filter((line) => PLACE.test(line))
    .map((line) => line.trim())
}
