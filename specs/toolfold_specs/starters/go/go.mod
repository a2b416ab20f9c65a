module starter

go 1.21
