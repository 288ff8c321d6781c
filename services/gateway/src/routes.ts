/** Binds each route to its function, stage by stage. */
import { InstarError } from '@instar/events'
import { parseJson } from '@instar/dialects'
import type { Metrics } from '@instar/process'
import { adminProof } from '@instar/process/admin-proof'
import { runCommand, type CommandPorts } from './admin/commands.ts'
import { modelCard, modelList, statusOf } from './admin/core/report.ts'
import { giveFeedback, type FeedbackPorts } from './capture/feedback.ts'
import type { CompatRoute } from './compat/route.ts'
import { embed } from './generate/embeddings.ts'
import type { AnswerCall, AnswerPorts, AnswerReply } from './generate/context.ts'
import { judge } from './generate/judgement.ts'
import { complete } from './generate/text-completion.ts'
import { countTokens } from './prompt/counting.ts'
import type { Routes } from './receive/routes.ts'
import { closeSession, endingOf } from './session/closing.ts'
import { resolveReferences } from './session/references.ts'
import { RESPONSES } from './session/responses.ts'
import { SHOWN_WITHIN_MS } from './session/tail.ts'
import { versionOf } from './versions/core/model-name.ts'

type RoutePorts = Pick<CommandPorts, 'log' | 'line' | 'adminWaitMs' | 'promote' | 'replay'> & {
  /** Called for each request, since some ports exist only after the start. */
  ports: () => AnswerPorts
  answer: (call: AnswerCall) => Promise<AnswerReply>
  /** As `ports`, for requests to the model. Throws `stopping`. */
  admitting: () => AnswerPorts
  report: () => Parameters<typeof statusOf>[0]
  unready: () => { status: string; problem: unknown } | null
  metrics: Metrics
  feedbackGiven: FeedbackPorts['given']
  compat: readonly CompatRoute[]
  /** The admin token, if it is that of a file. */
  fileToken: string | null
}

export const createRoutes = ({
  ports,
  answer,
  admitting,
  log,
  line,
  report,
  unready,
  metrics,
  feedbackGiven,
  compat,
  fileToken,
  adminWaitMs,
  promote,
  replay,
}: RoutePorts): Routes => {
  const { engine, model, policy, pool, index, meter, recentRequests } = ports()
  return {
    answer,
    complete: async (call) => complete(admitting(), call),
    embed: async (call) => embed(admitting(), call),
    judge: async (call) => judge(admitting(), call),
    compat,
    countTokens: async (dialect, body, reader) => ({
      input_tokens: countTokens(
        model,
        dialect,
        await resolveReferences(ports(), dialect, reader, parseJson(body)),
        engine.capabilities().accepts,
      ),
    }),
    response: (verb, asked) => RESPONSES[verb](ports(), asked),
    feedback: (call) => giveFeedback({ ...ports(), given: feedbackGiven }, call),
    close: async ({ body, ...call }) => closeSession({ ...ports(), log }, { ...call, ...endingOf(body) }),
    models: () => modelList(report()),
    model(id) {
      const version = versionOf(id, policy)
      const known = version === undefined ? null : modelCard(report(), version)
      if (!known)
        throw new InstarError('model_not_found', `There is no model ${JSON.stringify(id.slice(0, 100))} here.`, {
          field: 'model',
        })
      return known
    },
    unready,
    ready: () => ({
      status: pool.problem() ? 'degraded' : 'ready',
      version: pool.serving()?.version ?? null,
      head: line().head,
      problem: pool.problem(),
    }),
    status: () => statusOf(report()),
    prove(nonce, end) {
      if (fileToken !== null) return adminProof(fileToken, nonce, end)
      throw new InstarError(
        'not_available',
        'The gateway has no admin token in a file (INSTAR_ADMIN_TOKEN is not told).',
      )
    },
    async requests() {
      await ports().tail.turnsWithin(SHOWN_WITHIN_MS)
      return recentRequests.list((turn) => index.fold.turns.get(turn))
    },
    metrics: () => metrics.text(),
    meter,
    command: (name, call) => runCommand({ ...ports(), log, line, adminWaitMs, promote, replay }, name, call),
  }
}
