/**
 * `instar replay`: trains again from the log on a branch; the serving head does not change. With unchanged settings
 * (replay-recorded.ts) the recorded batches are computed again: on the recorded engine every adapter must be bit-equal,
 * on another engine the report has the distance (mode `tolerance`). With changed settings (replay-changed.ts) new
 * batches are sealed. Options and log are checked before the first record of the branch is appended.
 */
import { InstarError, requireBase, weightLine } from '@instar/events'
import { createTurnReader } from '@instar/log'
import { branchKey, startVersion, type ReplayOptions } from '../core/replay.ts'
import { readAudit, type Audit } from './audit.ts'
import { Branch } from './branch.ts'
import { baseAdapter } from './compute.ts'
import { replayChanged } from './replay-changed.ts'
import { replayRecorded } from './replay-recorded.ts'
import type { ReplayPorts, ReplayReport, ReplayRun } from './replay-run.ts'

export type { ReplayPorts, ReplayProgress, ReplayReport } from './replay-run.ts'

/**
 * Throws `bad_request`, `log_gap`, `branch_exists`, `unknown_version`, `aborted`, `no_temporary_file`, `no_checkpoint`, and
 * errors of the log and of the learning engine.
 */
export const replay = async (ports: ReplayPorts, policy: string, options: ReplayOptions): Promise<ReplayReport> => {
  if (!/^[a-z0-9][a-z0-9._-]{0,62}$/i.test(options.branch))
    throw new InstarError(
      'bad_request',
      `--branch ${options.branch}: a branch name has at most 63 letters, digits, dots, underscores and dashes`,
      { field: 'branch' },
    )
  if (ports.start && options.judge !== null)
    throw new InstarError(
      'bad_request',
      'a judge scores turns in the order of the log, which a checkpoint does not have: start at the beginning of the log',
      { field: 'judge' },
    )
  const audit = await readAudit(ports.log, policy, { signal: ports.signal, start: ports.start })
  try {
    return await replayAudited(ports, audit, options)
  } finally {
    await audit.close()
  }
}

const replayAudited = async (
  ports: ReplayPorts,
  { state, trusted, broken, unreadable, afterFold }: Audit,
  options: ReplayOptions,
): Promise<ReplayReport> => {
  const { policy } = state
  if (broken) throw new InstarError('log_gap', broken.what, broken)
  requireBase(weightLine(state.weights, policy), ports.model)
  const key = branchKey(policy, options.branch)
  if (weightLine(state.weights, key).started)
    throw new InstarError('branch_exists', `branch ${options.branch} already exists`, { branch: options.branch })
  const from = startVersion(state, options.from)
  const run: ReplayRun = {
    ports,
    state,
    branch: new Branch({ log: ports.log, now: ports.now, signal: ports.signal, afterFold }, state, key, from),
    reader: createTurnReader(ports.log, (turn) => state.turns.turns.get(turn)),
    startedAt: ports.now(),
    from,
    base: await baseAdapter(ports.log, state.weights, policy),
    unreadable: unreadable.records,
    trusted,
  }
  const changed = Object.keys(options.set).length > 0 || options.judge !== null
  return changed ? replayChanged(run, options) : replayRecorded(run, options)
}
