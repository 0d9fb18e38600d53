package option

import "testing"

func BenchmarkTable(b *testing.B) {
	for b.Loop() {
		newTable()
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := Parse([]string{"-n", "2", "-hosts", "a:2,b", "-l", "./a.out"}); err != nil {
			b.Fatal(err)
		}
	}
}
