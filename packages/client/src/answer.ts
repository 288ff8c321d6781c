/** The ids in the headers of a response. */

export type AnswerIds = {
  version: number | null
  turn: string | null
  /** The turn of each candidate. */ turns: string[]
  session: string | null
}

/** Reads a `fetch` Response, or the raw response of an SDK (`.withResponse()`, `.asResponse()`). */
export const answerOf = (answer: { headers: { get(name: string): string | null } }): AnswerIds => {
  const { headers } = answer
  const turn = headers.get('x-instar-turn-id')
  const version = headers.get('x-instar-version')
  const turns = headers.get('x-instar-turn-ids')?.split(',') ?? (turn === null ? [] : [turn])
  return {
    version: version === null ? null : Number(version),
    turn,
    turns,
    session: headers.get('x-instar-session-id'),
  }
}
