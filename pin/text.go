package pin

import "strconv"

// Text writes ascending numbers in the kernel's list notation, "0-3,8"; the empty list
// is the empty text. It is the opposite of ParseCPUs.
func Text(numbers []int) string {
	var text []byte
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(numbers[i]), 10)
		if end > i {
			text = append(text, '-')
			text = strconv.AppendInt(text, int64(numbers[end]), 10)
		}
		i = end + 1
	}
	return string(text)
}
