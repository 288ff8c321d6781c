/** Names of tasks: episodes with the same one, and the same API key, are compared with each other. */
import { header, type Headers } from '@instar/agents'
import { InstarError } from '@instar/events'
import { text, wrong, type Fields } from '@instar/dialects'

/** Maximum length of the name of a task in UTF-16 units: every turn of its episodes has it. */
export const MAX_TASK_LENGTH = 200

/** A field with the name of a task; null if it is absent. Throws `bad_request`. */
export const taskIn = (fields: Fields, name: string): string | null => {
  const task = text(fields, name)
  if (task !== null && task.length > MAX_TASK_LENGTH)
    throw wrong(name, `a text of at most ${MAX_TASK_LENGTH} characters`)
  return task
}

/** The task of a request: of `x-instar-task-id`, else of its URL; null if it is in no episode. Throws `bad_request`. */
export const taskOf = ({ headers, task: named }: { headers: Headers; task?: string | undefined }): string | null => {
  const task = header(headers, 'x-instar-task-id')
  if (task !== null && task.length > MAX_TASK_LENGTH)
    throw new InstarError('bad_request', `x-instar-task-id has at most ${MAX_TASK_LENGTH} characters.`, {
      field: 'x-instar-task-id',
    })
  return task ?? named ?? null
}
