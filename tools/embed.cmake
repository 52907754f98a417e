# cmake -DIN=FILE -DOUT=C_FILE -DNAME=SYMBOL -P embed.cmake: a file's bytes as a C array, `SYMBOL` and `SYMBOL_size`.
file(READ ${IN} hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR size "${digits} / 2")
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}") # sixteen bytes a line
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE ${OUT} "#include <stddef.h>\nconst unsigned char ${NAME}[] = {\n${hex}\n0};\nconst size_t ${NAME}_size = ${size};\n")
