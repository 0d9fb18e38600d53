package option

import "testing"

func BenchmarkTable(b *testing.B) {
	for b.Loop() {
		Mpiexec(linuxSignals)
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := Mpiexec(linuxSignals).Parse([]string{"-n", "2", "-hosts", "a:2,b", "-l", "./a.out"}, Sources{}); err != nil {
			b.Fatal(err)
		}
	}
}
