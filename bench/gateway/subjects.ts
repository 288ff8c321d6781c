/** The servers that are measured: each takes Chat Completions and forwards them to the same engine. */
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { freePort } from '../../test/kit/stack/ready.ts'
import { ROOT } from '../../tools/tree.ts'
import { installLitellm, installPortkey, installUndici, LITELLM, PORTKEY } from '../peers/gateway/install.ts'
import { startExternal, startProgram, type Server } from './process.ts'

export type Name = 'direct' | 'pass-through' | 'ours' | 'before' | 'npm start' | 'Portkey' | 'LiteLLM'
/** `headers`: that its clients must send. */
export type Subject = { name: Name; server: Server; headers: readonly string[] }

const KEY = 'sk-bench'
const START_MS = 120_000

const startPortkey = async (program: string, engine: string): Promise<Subject> => {
  const port = await freePort()
  const server = await startExternal(process.execPath, [program, `--port=${port}`, '--headless'], {
    port,
    path: '/',
    env: {},
    ms: START_MS,
  })
  return {
    name: 'Portkey',
    server,
    headers: ['x-portkey-provider: openai', `x-portkey-custom-host: ${engine}/v1`, `authorization: Bearer ${KEY}`],
  }
}

/** `instar up`: all services, the embedded log and PostgreSQL. The usage is of all its processes. */
const startPipeline = async (engine: string, folder: string): Promise<Subject> => {
  const port = await freePort()
  const env = { INSTAR_ENGINE: `openai+${engine}/v1`, INSTAR_DATA: join(folder, 'up'), INSTAR_PORT: String(port) }
  const server = await startExternal(process.execPath, [join(ROOT, 'cli/src/main.ts'), 'up'], {
    port,
    path: '/health/ready',
    env,
    ms: START_MS,
  })
  return { name: 'npm start', server, headers: [] }
}

/** LiteLLM with one worker and no database. */
const startLitellm = async (program: string, engine: string, folder: string): Promise<Subject> => {
  const port = await freePort()
  const config = join(folder, 'litellm.json')
  // The file is read as YAML, which includes JSON.
  await writeFile(
    config,
    JSON.stringify({
      model_list: [
        { model_name: 'policy', litellm_params: { model: 'openai/mock', api_base: `${engine}/v1`, api_key: KEY } },
      ],
      general_settings: { master_key: KEY },
    }),
  )
  const env = { LITELLM_LOCAL_MODEL_COST_MAP: 'True', LITELLM_TELEMETRY: 'False', LITELLM_LOG: 'ERROR' }
  const server = await startExternal(
    program,
    ['--config', config, '--host', '127.0.0.1', '--port', String(port), '--num_workers', '1'],
    { port, path: '/health/liveliness', env, ms: START_MS },
  )
  return { name: 'LiteLLM', server, headers: [`authorization: Bearer ${KEY}`] }
}

export type Options = {
  engine: Server
  folder: string
  peer: boolean
  profile: string | null
  /** Another checkout. */
  before: string | null
  logLine: (line: string) => void
}

/** Starts the subjects that can be installed here. */
export const startSubjects = async ({
  engine,
  folder,
  peer,
  profile,
  before,
  logLine,
}: Options): Promise<Subject[]> => {
  const cache = join(ROOT, '.cache')
  const url = `http://127.0.0.1:${engine.port}`
  const subjects: Subject[] = [{ name: 'direct', server: engine, headers: [] }]
  const undici = await installUndici(cache, logLine)
  if (undici !== null)
    subjects.push({
      name: 'pass-through',
      server: await startProgram(join(ROOT, 'bench/peers/gateway/pass-through.ts'), [url, undici]),
      headers: [],
    })
  const flags = profile === null ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`]
  subjects.push({
    name: 'ours',
    server: await startProgram(join(ROOT, 'bench/gateway/instar.ts'), [`openai+${url}/v1`, folder], flags),
    headers: [],
  })
  if (before !== null) {
    const program = join(resolve(before), 'bench/gateway/instar.ts')
    const server = await startProgram(program, [`openai+${url}/v1`, join(folder, 'before')])
    subjects.push({ name: 'before', server, headers: [] })
  }
  subjects.push(await startPipeline(url, folder))
  if (!peer) return subjects
  for (const [name, install, start] of [
    [`Portkey ${PORTKEY}`, installPortkey, startPortkey],
    [`LiteLLM ${LITELLM}`, installLitellm, startLitellm],
  ] as const) {
    const program = await install(cache, logLine)
    if (program === null) continue
    try {
      subjects.push(await start(program, url, folder))
    } catch (cause) {
      logLine(`${name} does not start and is left out: ${(cause as Error).message}`)
    }
  }
  return subjects
}
