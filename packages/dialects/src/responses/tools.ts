/** Tools of Responses: functions, functions of a namespace, custom tools with a text input, and hosted tools. */
import { fieldsOf, isFields, text, wrong, type Fields } from '../fields.ts'
import type { ToolShape } from '../request.ts'

/** The tool's name in the prompt. */
export const qualified = (namespace: string | null, name: string): string =>
  namespace === null ? name : `${namespace}__${name}`

const TEXT_INPUT = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
}

type Tool = ToolShape & { tool: Fields }

/** `dropped`: types of hosted tools, which OpenAI's servers execute. Throws `bad_request`. */
const parseTools = (value: unknown): { tools: Tool[]; dropped: string[] } => {
  if (value === undefined || value === null) return { tools: [], dropped: [] }
  if (!Array.isArray(value)) throw wrong('tools', 'a list of tools')
  const tools: Tool[] = []
  const dropped: string[] = []
  for (const [i, item] of value.entries()) {
    const tool = fieldsOf(item, `tools[${i}]`)
    const type = text(tool, 'type')
    if (type === 'namespace') {
      const namespace = text(tool, 'name') ?? ''
      for (const inner of Array.isArray(tool['tools']) ? tool['tools'] : [])
        if (isFields(inner) && typeof inner['name'] === 'string')
          tools.push({
            name: inner['name'],
            namespace,
            kind: inner['type'] === 'custom' ? 'custom' : 'function',
            tool: inner,
          })
    } else if (type === 'function' || type === 'custom') {
      const name = text(tool, 'name')
      if (name === null) throw wrong(`tools[${i}].name`, 'the name of the tool')
      tools.push({ name, namespace: null, kind: type, tool })
    } else dropped.push(type ?? `tools[${i}]`)
  }
  return { tools, dropped }
}

/** The tools as Chat Completions functions, which chat templates expect. */
export const offered = (value: unknown): { tools: unknown[]; dropped: string[]; strict: ReadonlySet<string> } => {
  const { tools, dropped } = parseTools(value)
  return {
    dropped,
    strict: new Set(
      tools.flatMap(({ name, namespace, tool }) => (tool['strict'] === true ? [qualified(namespace, name)] : [])),
    ),
    tools: tools.map(({ name, namespace, kind, tool }) => ({
      type: 'function',
      function: {
        name: qualified(namespace, name),
        ...(typeof tool['description'] === 'string' ? { description: tool['description'] } : {}),
        parameters:
          kind === 'custom'
            ? TEXT_INPUT
            : isFields(tool['parameters'])
              ? tool['parameters']
              : { type: 'object', properties: {} },
      },
    })),
  }
}

/** Custom tools and tools of a namespace, by their name in the prompt. */
export const shapesOf = (value: unknown): ReadonlyMap<string, ToolShape> =>
  new Map(
    parseTools(value).tools.flatMap(({ name, namespace, kind }) =>
      namespace === null && kind === 'function' ? [] : [[qualified(namespace, name), { name, namespace, kind }]],
    ),
  )
