/** The checks of `instar doctor trainer`: a server of the Tinker API is held to what the trainer needs. */
import { capabilitiesMap, connectTrainer, DEFAULT_WIRE, type Capabilities, type TrainingServer } from '@instar/tinker'
import { errorFinding, note, ok, unsure, wrong, type Finding } from './finding.ts'

export type TrainerCheck = Finding & { name: string }
export type TrainerReport = { checks: TrainerCheck[]; capabilities: Record<string, string> | null }

/** `base` null: the only base model that the server lists. */
export type TrainerOptions = { key: string | null; base: string | null; rank: number; signal: AbortSignal }

/** What the capabilities of a server mean for the trainer. */
export const trainerFindings = (found: Capabilities, isLocal: boolean): TrainerCheck[] => {
  const named = (name: string, finding: Finding): TrainerCheck => ({ name, ...finding })
  return [
    named('reduction', ok(`${found.reduction}: the trainer scales the advantages so that the plain sum results`)),
    named(
      'losses',
      found.losses.includes('importance_sampling') && found.losses.includes('cross_entropy')
        ? ok(found.losses.join(', '))
        : wrong(
            `${found.losses.join(', ') || 'none'}; importance_sampling and cross_entropy are needed`,
            'Use a server that has both losses.',
          ),
    ),
    named(
      'retries',
      found.repeatable
        ? ok('a repeated request gives the first result, other bytes under its number are refused')
        : wrong(
            'a repeated request runs again: a retry would train twice',
            'Use a server that takes seq_id as the key of a request.',
          ),
    ),
    named(
      'resume',
      found.resumes
        ? ok('a new model that loads a saved state gives the same log-probs')
        : wrong(
            'a new model that loads a saved state gives other log-probs: nothing can continue after a restart',
            'Use another server or version; after each restart training would begin anew.',
          ),
    ),
    named('adapter', ok(`rank as asked, alpha ${found.alpha ?? 'not stated'}, modules ${found.targets.join(', ')}`)),
    named(
      'gradient',
      found.gradClip
        ? ok('grad_clip_norm has an effect')
        : note(
            `grad_clip_norm is ignored${found.gradNorm ? '; the norm is reported' : ', and the norm is not reported'}`,
            'Nothing, unless the gate rejects many versions: then lower the learning rate.',
          ),
    ),
    named(
      'unload',
      found.keepsGradients
        ? note(
            'gradients of a model that is unloaded before its step go into the next model in its place',
            'Nothing for Instar, which takes them out before it trains. Let no other client train on this server.',
          )
        : ok('a new model has no gradients of an earlier one'),
    ),
    named(
      'shared_rows',
      found.sharesPrefixes
        ? ok('turns of a session that extend each other share a row')
        : note(
            'the beginning of a row has other log-probs than a row of its own',
            'Nothing for Instar, which sends each turn in a row of its own; long sessions then cost more tokens.',
          ),
    ),
    named(
      'lengths',
      ok(
        found.checksLengths
          ? 'a short row is refused'
          : 'a short row is padded without a word; the client checks lengths',
      ),
    ),
    named(
      'context',
      ok(
        found.contextLength
          ? `turns of at most ${found.contextLength} tokens; longer ones are left out of an update`
          : 'no limit is stated; a row of a turn that is too long fails where the server fails it',
      ),
    ),
    named('prompts', ok(`log-probs of prompts when sampling: ${found.promptLogprobs.replace('_', ' ')}`)),
    named(
      'key',
      found.requiresKey === null
        ? unsure('a request without a key was not answered in time', 'Run this again when the server is idle.')
        : found.requiresKey
          ? ok('a request without a key is refused')
          : isLocal
            ? ok('no key is needed; the server is on this machine')
            : note('no key is needed', 'Let only this machine reach the server (firewall, private network).'),
    ),
  ]
}

const isLocal = (url: string): boolean => /^https?:\/\/(127\.|localhost[:/]|localhost$|\[::1\])/.test(url)

/** `onCheck` is called with each check as it is made. */
export const checkTrainer = async (
  address: string,
  { key, base, rank, signal }: TrainerOptions,
  onCheck: (check: TrainerCheck) => void,
): Promise<TrainerReport> => {
  const checks: TrainerCheck[] = []
  const add = (check: TrainerCheck): void => {
    checks.push(check)
    onCheck(check)
  }
  let server: TrainingServer | null = null
  let name = 'server'
  try {
    server = await connectTrainer(address, { key, signal })
    const { product, version, models } = await server.hello(signal)
    const { format, rowsMax, bytesMax, adapters } = server.wire
    add({
      name,
      ...ok(
        `${server.url}: ${product}${version === null ? '' : ` ${version}`}, base models ${models.join(', ') || 'none'}; ${format}, at most ${rowsMax} rows and ${bytesMax} bytes in a request, adapters as ${adapters.replace('_', ' ')}`,
      ),
    })
    name = 'base'
    const chosen = base ?? (models.length === 1 ? models[0] : undefined)
    if (chosen === undefined) {
      add({ name, ...wrong(`the server lists ${models.length} base models`, 'Name one with --base.') })
      return { checks, capabilities: null }
    }
    name = 'probe'
    const found = await server.probe(chosen, rank, signal)
    for (const check of trainerFindings(found, isLocal(server.url))) add(check)
    return { checks, capabilities: capabilitiesMap(found) }
  } catch (error) {
    if (signal.aborted) throw error
    add({ name, ...errorFinding(error) })
    return { checks, capabilities: null }
  } finally {
    await server?.close()
  }
}

/** How long the training server that the settings name may take to answer. */
const ANSWER_MS = 5000

/** `serverModel` null: the only base model that the server lists. */
type NamedServer = { server: string; serverModel: string | null; serverKey: string | null }

/** Whether the server of the settings answers and lists the base model; it trains nothing there. */
export const namedServerFindings = async (
  { server: address, serverModel, serverKey }: NamedServer,
  answerMs = ANSWER_MS,
): Promise<Finding[]> => {
  const limits = { connectMs: answerMs, answerMs, submitMs: answerMs }
  const server = await connectTrainer(address, { key: serverKey, wire: DEFAULT_WIRE, limits })
  try {
    const { product, version, models } = await server.hello()
    const named = `${server.url}: ${product}${version === null ? '' : ` ${version}`}`
    const listed = `base models ${models.join(', ') || 'none'}`
    return serverModel === null && models.length !== 1
      ? [wrong(`${named} lists ${models.length} base models`, 'Name one in INSTAR_TRAINER_MODEL.')]
      : [ok(`${named}, ${listed}; \`instar doctor trainer\` tries what it can do`)]
  } catch (error) {
    return [errorFinding(error)]
  } finally {
    await server.close()
  }
}
