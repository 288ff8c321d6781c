/** The functions that routes call: completions, feedback, reports, admin commands. */
import type { Dialect } from '@instar/dialects'
import type { ConnectionEnd } from '@instar/process/admin-proof'
import type { AdminCall } from '../admin/commands.ts'
import type { Meter } from '../admin/metrics.ts'
import type { FeedbackCall } from '../capture/feedback.ts'
import type { CompatRoute } from '../compat/route.ts'
import type { AnswerCall, AnswerReply } from '../generate/context.ts'
import type { EmbeddingCall } from '../generate/embeddings.ts'
import type { JudgementCall } from '../generate/judgement.ts'
import type { CompletionCall } from '../generate/text-completion.ts'
import type { Reader } from '../session/earlier-body.ts'
import type { ResponseRequest, ResponseVerb } from '../session/responses.ts'

export type Routes = {
  answer(call: AnswerCall): Promise<AnswerReply>
  complete(call: CompletionCall): Promise<AnswerReply>
  embed(call: EmbeddingCall): Promise<Uint8Array>
  /** A judgement by the base weights. */
  judge(call: JudgementCall): Promise<unknown>
  countTokens(dialect: Dialect, body: Uint8Array, reader: Reader): Promise<{ input_tokens: number }>
  response(verb: ResponseVerb, asked: ResponseRequest): Promise<unknown>
  feedback(call: FeedbackCall): Promise<unknown>
  close(call: { label: string; key: string | null; body: Uint8Array }): Promise<unknown>
  /** Routes of other trainers' gateways. */
  compat: readonly CompatRoute[]
  models(): unknown
  model(id: string): unknown
  /** Null while the gateway is ready. */
  unready(): unknown
  ready(): unknown
  status(): unknown
  /** That the gateway knows the admin token in its file. Throws `not_available` where it has none. */
  prove(nonce: Uint8Array, end: ConnectionEnd): Buffer
  /** The most recent requests and how they were classified. */
  requests(): unknown
  command(name: string, call: AdminCall): Promise<unknown>
  /** In Prometheus's text format. */
  metrics(): Promise<string>
  meter: Meter
}
