/** A whole answer → what the APIs show of it. White space at the edges of reasoning is dropped. */
import type { Call } from '../answer.ts'
import { AnswerParser, THINK_CLOSE, THINK_OPEN } from './parser.ts'

export type Answer = { content: string; reasoning: string; toolCalls: Call[] }

/** A text with a closing `</think>` and no opening one began inside the reasoning: the prompt opened it. */
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
