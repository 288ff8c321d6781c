/** A shop page through its accessibility tree: roles and names, as a screen reader has them; no browser. */
import { drawing, pick } from '../draw.ts'
import { tool, type Example, type World } from '../example.ts'

const GOODS = ['lamp', 'chair', 'clock', 'table', 'mirror', 'shelf'] as const

type Page = { query: string; cart: string[]; found: string[] }

/** The tree as text, an element a line. */
const treeOf = ({ query, cart, found }: Page): string =>
  [
    'main "Shop"',
    `  textbox "Search" value "${query}"`,
    '  button "Search"',
    ...found.map((name) => `  button "Add ${name}"`),
    `  status "Cart: ${cart.length === 0 ? 'empty' : cart.join(', ')}"`,
  ].join('\n')

const worldOf = (wanted: string): World => {
  const page: Page = { query: '', cart: [], found: [] }
  const click = (element: string): string | null => {
    if (element === 'Search') page.found = GOODS.filter((name) => page.query !== '' && name.includes(page.query))
    else {
      const name = page.found.find((one) => element === `Add ${one}`)
      if (name === undefined) return `error: there is no button "${element.slice(0, 40)}"`
      page.cart.push(name)
    }
    return null
  }
  return {
    call(name, { element, text }) {
      let error: string | null = null
      if (name === 'type' && element === 'Search' && typeof text === 'string')
        page.query = text.trim().toLowerCase().slice(0, 40)
      else if (name === 'click' && typeof element === 'string') error = click(element)
      else error = 'error: use type with the textbox, or click with a button'
      return Promise.resolve(error ?? treeOf(page))
    },
    // Exactly the wanted thing, once.
    reward: () =>
      Promise.resolve(page.cart.length === 1 && page.cart[0] === wanted ? 1 : page.cart.includes(wanted) ? -0.25 : -1),
    end: () => Promise.resolve(),
  }
}

export const web: Example = {
  name: 'web',
  about: 'find a thing in a shop page and put it into the cart',
  tasks: (seed, count) =>
    Array.from({ length: count }, (_, at) => {
      const wanted = pick(drawing(seed * 1_000 + at), GOODS)
      const ask = `Put one ${wanted} into the cart.\n${treeOf({ query: '', cart: [], found: [] })}`
      const tools = [
        tool('type', 'Type text into an element', ['element', 'text']),
        tool('click', 'Click an element', ['element']),
      ]
      return { id: `web ${seed} ${at}`, ask, tools, turns: 5, begin: () => Promise.resolve(worldOf(wanted)) }
    }),
}
