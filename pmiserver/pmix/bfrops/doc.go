// Package bfrops is the encoding of PMIx messages: bfrops v3, non-described (pmix-wire.md 5).
// All numbers are big-endian and nothing is aligned. A message is a sequence of packs, and a
// pack a number of elements, all of one type:
//
//	pack    = count:int32 element*count
//	element = of each type as the table in types.go has it
//
// What stands inside of an element has no count of its own. A Reader takes a message apart,
// pack by pack; the Append functions write what it reads. Nothing here knows what a message
// is about, and nothing reaches beyond its arguments.
package bfrops
