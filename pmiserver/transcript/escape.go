package transcript

// Escape writes bytes in the notation of a transcript. Printable ASCII except the backslash stays as
// it is. Other bytes become \\, \n, \0 or \xHH.
func Escape(b []byte) string {
	const digits = "0123456789abcdef"
	out := make([]byte, 0, len(b))
	for _, c := range b {
		switch {
		case c == '\\':
			out = append(out, `\\`...)
		case c >= ' ' && c <= '~':
			out = append(out, c)
		case c == '\n':
			out = append(out, `\n`...)
		case c == 0:
			out = append(out, `\0`...)
		default:
			out = append(out, '\\', 'x', digits[c>>4], digits[c&15])
		}
	}
	return string(out)
}
