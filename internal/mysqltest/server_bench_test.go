package mysqltest_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/snowshed-go/snowshed/internal/mysqltest"
)

// BenchmarkPointSelect measures what the simulator itself allows: 16 clients, no service time.
func BenchmarkPointSelect(b *testing.B) {
	for name, tr := range transports {
		b.Run(name, func(b *testing.B) {
			srv := start(b, mysqltest.Options{InMemory: tr.inMemory})
			users := srv.Table("users", "id", "name")
			for i := range 1000 {
				users.Set(i, "ann")
			}
			db := open(b, srv, tr.with)
			db.SetMaxIdleConns(16)
			st, err := db.PrepareContext(b.Context(), "SELECT id, name FROM users WHERE id = ?")
			if err != nil {
				b.Fatal(err)
			}
			defer st.Close()
			b.SetParallelism(8) // × GOMAXPROCS
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					var row *sql.Row
					if strings.HasSuffix(name, "interpolated") {
						row = db.QueryRowContext(b.Context(), "SELECT id, name FROM users WHERE id = ?", i%1000)
					} else {
						row = st.QueryRowContext(b.Context(), i%1000)
					}
					var id int
					var user string
					if err := row.Scan(&id, &user); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "queries/s")
		})
	}
}
