/** The Python clients: their installation, and one conversation of each with a scene. */
import path from 'node:path'
import { pythonOf, pythonPrograms } from '../../kit/python.ts'
import { converse as hold, type Client } from '../converse.ts'
import { runProgram } from '../program.ts'

const HERE = import.meta.dirname
const [FROM, TO] = [11, 13]

/** The folder of their programs; null without a suitable Python. */
export const pythonClients = (list = 'requirements.txt'): string | null => {
  if (pythonOf(FROM, TO) === null) return null
  return pythonPrograms({
    name: `python-clients${list === 'requirements.txt' ? '' : `-${path.basename(list, '.txt')}`}`,
    hashed: path.join(HERE, list),
    from: FROM,
    to: TO,
  })
}

export const NO_PYTHON = `Python 3.${FROM} to 3.${TO} with venv is needed`

export type PythonClient = Client & {
  script: string
  args?: readonly string[]
  streams?: boolean
  tape?: string
}

/** Runs the program and compares the log with its output. */
export const converse = async (programs: string, client: PythonClient, stream: boolean): Promise<void> => {
  const args = [path.join(HERE, `${client.script}.py`), stream ? 'stream' : 'whole', ...(client.args ?? [])]
  const python = path.join(programs, 'python')
  const tape = stream ? undefined : client.tape
  await hold(client, (place, env) => runProgram(python, args, place, { ...env, ...OFFLINE }), tape)
}

/** No network access and no telemetry. */
const OFFLINE = {
  OTEL_SDK_DISABLED: 'true',
  CREWAI_DISABLE_TELEMETRY: 'true',
  CREWAI_TRACING_ENABLED: 'false',
  DO_NOT_TRACK: '1',
  OPENAI_AGENTS_DISABLE_TRACING: '1',
  PYTHONDONTWRITEBYTECODE: '1',
  PYTHONWARNINGS: 'ignore',
}
