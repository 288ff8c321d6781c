/** The dashboard's pages with something to see, and the windows in which they are looked at. */

export const LOOKS = {
  light: { colorScheme: 'light', viewport: { width: 1280, height: 720 } },
  dark: { colorScheme: 'dark', viewport: { width: 1280, height: 720 } },
  phone: { colorScheme: 'light', viewport: { width: 390, height: 844 } },
} as const

const read = async <T>(url: string): Promise<T> => (await (await fetch(url)).json()) as T

/** Address of each page by its name. `filter`: which sessions may be shown. */
export const pagesOf = async (gateway: string, filter = ''): Promise<Record<string, string>> => {
  const sessions = `${gateway}/v1/dashboard/sessions`
  const [session] = (await read<{ rows: { session_id: string }[] }>(`${sessions}${filter}`)).rows
  const { turns } = await read<{ turns: { rows: { turn_id: string; hint: string | null }[] } }>(
    `${sessions}/${session!.session_id}`,
  )
  const turn = turns.rows.find(({ hint }) => hint) ?? turns.rows[0]!
  return {
    now: '/',
    versions: '/versions',
    version: '/versions/1',
    sessions: '/sessions',
    session: `/sessions/${session!.session_id}`,
    turn: `/turns/${turn.turn_id}`,
    compare: '/compare',
    learning: '/learning',
    health: '/health',
    talk: '/talk',
  }
}
