package plan

import "strconv"

// mappingLimit is the maximum length of PMI_process_mapping, in bytes, that is safe for every client. With the
// limits that our server sends, MPICH 4.0 and older versions read the value into a buffer of 674 bytes, and crash
// if it is longer (pmi-wire.md 3.3).
const mappingLimit = 673

// A mappingBlock is one block of PMI_process_mapping. It says that ranksPerNode ranks run on each of the nodes
// start, start+1, ..., start+nodes-1.
type mappingBlock struct{ start, nodes, ranksPerNode int }

// Mapping returns the value of PMI_process_mapping for a group of ranks. This value tells the ranks which of them share
// a node. node contains a number for each rank; ranks with equal numbers share a node. The result is "" if there are no
// ranks, or if the value would be too long for clients. The server then replies "not found", which is correct but makes
// clients slower. pmi-wire.md 3.1 and 3.2 describe the format and the algorithm.
func Mapping(node []int) string {
	if len(node) == 0 {
		return ""
	}
	labels := renumber(node)
	whole := formatMapping(blocks(labels))
	if len(whole) <= mappingLimit {
		return whole
	}
	// A client that has used all blocks starts again at the first block of node 0, which is always the
	// first block here. So one period is enough.
	once := formatMapping(blocks(labels[:shortestPeriod(labels)]))
	if len(once) <= mappingLimit {
		return once
	}
	return ""
}

// renumber replaces the numbers in node by 0, 1, 2, ... in the order in which they first occur, and returns the result.
func renumber(node []int) []int {
	number := make(map[int]int)
	labels := make([]int, len(node))
	for r, n := range node {
		k, known := number[n]
		if !known {
			k = len(number)
			number[n] = k
		}
		labels[r] = k
	}
	return labels
}

// blocks returns the blocks of a process mapping. labels contains the node of each rank. blocks first forms runs of
// equal labels. Then it combines runs of the same length on successive nodes.
func blocks(labels []int) []mappingBlock {
	var bs []mappingBlock
	for r := 0; r < len(labels); {
		end := r + 1
		for end < len(labels) && labels[end] == labels[r] {
			end++
		}
		if n := len(bs); n > 0 && bs[n-1].ranksPerNode == end-r && labels[r] == bs[n-1].start+bs[n-1].nodes {
			bs[n-1].nodes++
		} else {
			bs = append(bs, mappingBlock{labels[r], 1, end - r})
		}
		r = end
	}
	return bs
}

// shortestPeriod returns the smallest p for which labels[r] == labels[r mod p] for all r. It is the length of
// labels minus the length of their longest border (failure function of Knuth, Morris and Pratt).
func shortestPeriod(labels []int) int {
	border := make([]int, len(labels))
	for i := 1; i < len(labels); i++ {
		k := border[i-1]
		for k > 0 && labels[i] != labels[k] {
			k = border[k-1]
		}
		if labels[i] == labels[k] {
			k++
		}
		border[i] = k
	}
	return len(labels) - border[len(labels)-1]
}

func formatMapping(bs []mappingBlock) string {
	b := []byte("(vector")
	for _, v := range bs {
		b = append(b, ",("...)
		b = strconv.AppendInt(b, int64(v.start), 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, int64(v.nodes), 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, int64(v.ranksPerNode), 10)
		b = append(b, ')')
	}
	return string(append(b, ')'))
}
