/** Parses a whole answer. Leading and trailing white space of the reasoning is dropped. */
import type { Call } from '../answer.ts'
import { AnswerParser, THINK_CLOSE, THINK_OPEN } from './parser.ts'

export type Answer = { content: string; reasoning: string; toolCalls: Call[] }

/** Whether the prompt opened the reasoning: the text has a `</think>` and does not begin with `<think>`. */
const beginsInReasoning = (text: string): boolean =>
  text.includes(THINK_CLOSE) && !text.trimStart().startsWith(THINK_OPEN)

export const parseAnswer = (text: string): Answer => {
  const parser = new AnswerParser({ tools: true, reasoning: beginsInReasoning(text) })
  const answer: Answer = { content: '', reasoning: '', toolCalls: [] }
  for (const piece of [...parser.push(text), ...parser.end()]) {
    if (piece.type === 'calls') answer.toolCalls.push(...piece.calls)
    else answer[piece.type] += piece.text
  }
  return { ...answer, reasoning: answer.reasoning.trim() }
}
