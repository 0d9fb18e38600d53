package pmiversion

import "strconv"

// A Field is key=value of a request; both are parts of what was said.
type Field struct{ Key, Value []byte }

// Fields are those of one request. They are used again for the next one.
type Fields []Field

// Find returns the first field of that name.
func (f Fields) Find(key string) (value []byte, found bool) {
	for i := range f {
		if string(f[i].Key) == key {
			return f[i].Value, true
		}
	}
	return nil, false
}

// Text returns the first field of that name, or nil.
func (f Fields) Text(key string) []byte {
	value, _ := f.Find(key)
	return value
}

// Number returns a field of decimal digits with an optional minus.
func (f Fields) Number(key string) (n int, ok bool) {
	value, found := f.Find(key)
	if !found || len(value) == 0 || value[0] == '+' {
		return 0, false
	}
	n, err := strconv.Atoi(string(value))
	return n, err == nil
}
