/** The ids in a response's headers. */

export type AnswerIds = {
  version: number | null
  turn: string | null
  /** One for each candidate, where several were asked for. */ turns: string[]
  session: string | null
}

/** Of a `fetch` Response, or of the raw response that an SDK hands out (`.withResponse()`, `.asResponse()`). */
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
