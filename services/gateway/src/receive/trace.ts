/**
 * What is told of a fault: its name, its code, and the places in the code, cause by cause. Never a message:
 * it may quote what a person wrote.
 */
export type Trace = { name: string; code: string | null; at: string[] }

const DEEPEST = 5
/** A place as V8 writes it, which a line of somebody's text between the name and the places is not. */
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
