package transcript

// Escape converts bytes to the notation of a transcript. Printable ASCII characters except the backslash
// remain as they are. Other bytes become \\, \n, \0 or \xHH.
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
