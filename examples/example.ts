/** What an example is: tasks with a verifiable reward, and the loop of an agent that works on one of them. */
import type OpenAI from 'openai'

export type Tools = OpenAI.ChatCompletionTool[]
/** The world of one episode. `call` never throws for what a model may send: it returns an error as text. */
export type World = {
  call(name: string, input: Readonly<Record<string, unknown>>): Promise<string>
  /** −1…1, by what is true of the world now. `said`: the last answer without a tool call. */
  reward(said: string): Promise<number>
  end(): Promise<void>
}
export type Task = {
  /** Episodes with the same id are compared with each other. */
  id: string
  ask: string
  tools: Tools
  /** Answers of the model at most. */
  turns: number
  begin(): Promise<World>
}
export type Example = {
  name: string
  about: string
  /** Different tasks for different seeds; ids differ, too. */
  tasks(seed: number, count: number): Task[]
}

export const tool = (name: string, description: string, properties: readonly string[]): OpenAI.ChatCompletionTool => ({
  type: 'function',
  function: {
    name,
    description,
    parameters: {
      type: 'object',
      properties: Object.fromEntries(properties.map((property) => [property, { type: 'string' }])),
      required: [...properties],
    },
  },
})

export type EpisodeOptions = {
  client: OpenAI
  /** URL of the gateway, without /v1. */
  url: string
  session: string
  /** `policy`, or `policy@N`. */
  model: string
  /** False: a measurement, of which nothing is trained on. */
  learn: boolean
  seed?: number
}
export type EpisodeResult = { reward: number; turns: number; calls: number }

/** One episode: the agent answers until it calls no tool; then the reward goes to the gateway, which trains on it. */
export const runEpisode = async (task: Task, options: EpisodeOptions): Promise<EpisodeResult> => {
  const { client, url, session, model, learn, seed } = options
  const world = await task.begin()
  try {
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: task.ask }]
    const headers = {
      'x-session-id': session,
      'x-instar-task-id': task.id,
      ...(learn ? {} : { 'x-instar-no-train': '1' }),
    }
    let [turns, calls, said] = [0, 0, '']
    while (turns < task.turns) {
      const { choices } = await client.chat.completions.create(
        { model, messages, tools: task.tools, max_tokens: 96, ...(seed === undefined ? {} : { seed: seed + turns }) },
        { headers },
      )
      const message = choices[0]?.message
      if (!message) break
      turns += 1
      said = message.content ?? ''
      messages.push(message)
      if (!message.tool_calls || message.tool_calls.length === 0) break
      for (const call of message.tool_calls) {
        if (call.type !== 'function') continue
        calls += 1
        const content = await world.call(call.function.name, argumentsOf(call.function.arguments))
        messages.push({ role: 'tool', tool_call_id: call.id, content })
      }
    }
    const reward = await world.reward(said)
    if (learn) await endEpisode(url, session, reward)
    return { reward, turns, calls }
  } finally {
    await world.end()
  }
}

const endEpisode = async (url: string, session: string, reward: number): Promise<void> => {
  const response = await fetch(`${url}/v1/sessions/${session}/close`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ reward }),
  })
  if (!response.ok) throw new Error(`the gateway refused the reward of ${session}: ${await response.text()}`)
}

const argumentsOf = (json: string): Readonly<Record<string, unknown>> => {
  try {
    const value: unknown = JSON.parse(json)
    return value !== null && typeof value === 'object' && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : {}
  } catch {
    return {}
  }
}
