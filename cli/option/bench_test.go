package option

import "testing"

func BenchmarkTable(b *testing.B) {
	for b.Loop() {
		Mpiexec(signals)
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := Mpiexec(signals).Parse([]string{"-n", "2", "-hosts", "a:2,b", "-l", "./a.out"}, Sources{}); err != nil {
			b.Fatal(err)
		}
	}
}
