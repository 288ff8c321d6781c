/** Counts the tokens of an update's passes, each row as often as it is computed: what a server that is paid by token counts. */
import type { TokenFigures } from '@instar/engine/port'

type Tokens = { readonly length: number }
/** `completion`: the answer, or of a row with several answers all of them; `prompt`: all other tokens of the row. */
type Row = { prompt: Tokens; completion: Tokens }

const sum = (values: readonly number[]): number => values.reduce((all, one) => all + one, 0)
const promptTokens = (rows: readonly Row[]): number => sum(rows.map(({ prompt }) => prompt.length))
const responseTokens = (rows: readonly Row[]): number => sum(rows.map(({ completion }) => completion.length))

export class PassedTokens {
  readonly figures: TokenFigures = {
    forwardPromptTokens: 0,
    forwardResponseTokens: 0,
    teacherTokens: 0,
    backwardPromptTokens: 0,
    backwardResponseTokens: 0,
  }

  /** Answers after their prompts, forward. */
  forward(rows: readonly Row[]): void {
    this.figures.forwardPromptTokens += promptTokens(rows)
    this.figures.forwardResponseTokens += responseTokens(rows)
  }

  /** Answers after their prompts with the hint, forward. */
  teacher(rows: readonly Row[]): void {
    this.figures.teacherTokens += promptTokens(rows) + responseTokens(rows)
  }

  /** Answers after their prompts, forward and backward. */
  backward(rows: readonly Row[]): void {
    this.figures.backwardPromptTokens += promptTokens(rows)
    this.figures.backwardResponseTokens += responseTokens(rows)
  }
}
