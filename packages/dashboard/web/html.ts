/** Templates: htm on Preact. Values are text or attributes, never HTML. */
import { h, type ComponentChildren, type VNode } from 'preact'
import htm from 'htm'

export type Children = ComponentChildren
export type View = VNode | null
export const html = htm.bind(h) as (strings: TemplateStringsArray, ...values: unknown[]) => VNode
