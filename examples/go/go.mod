module perdure.example

go 1.21
